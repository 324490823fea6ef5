/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every parameter of the library, one line each, in the order of the banner:
 *
 *   PARAM_INT(member, VARIABLE, default, min, max, label, sentence)
 *   PARAM_BOOL(member, VARIABLE, default, label, sentence)
 *   PARAM_STR(member, VARIABLE, default, label, sentence)
 *   PARAM_LEVEL(member, VARIABLE, default, label, sentence)     log level by name or number
 *   PARAM_ENUM(member, VARIABLE, default, names, label, sentence) one of the numbers named
 *   PARAM_NAMED(member, VARIABLE, default, min, max, names, label, sentence) some numbers named
 *   PARAM_RATIO(member, VARIABLE, default, max, label, sentence) -1 (off) or 1..max
 *   PARAM_CPUS(member, VARIABLE, default, label, sentence)      -1, 0xMASK or a list 1,3-5
 *
 * Names are ({number, "shown in the banner"}, ...), in ascending order.
 *
 * Parsing and the start-up banner come from this list; README.md repeats it.  A
 * parameter is listed only if it has an effect and a test that shows it.
 */
/* clang-format off */
PARAM_LEVEL(log_level, VMA_TRACELEVEL, LOG_INFO, "Log Level", "Messages above this level are not logged: none, panic, error, warn, info, details, debug, fine, finer, all.")
PARAM_INT(log_details, VMA_LOG_DETAILS, 0, 0, 3, "Log Details", "Details in front of each line: 1 thread id, 2 process and thread id, 3 time, process and thread id.")
PARAM_BOOL(log_colors, VMA_LOG_COLORS, 1, "Log Colors", "Colours when the log goes to a terminal.")
PARAM_STR(log_file, VMA_LOG_FILE, "", "Log File", "Write the log to this file instead of stderr; the first %d is replaced by the process id.")
PARAM_STR(config_file, VMA_CONFIG_FILE, "/etc/libvma.conf", "Conf File", "File with the rules which sockets are accelerated; the first %d is replaced by the process id. See docs/man/libvma.conf.5.")
PARAM_STR(application_id, VMA_APPLICATION_ID, "VMA_DEFAULT_APPLICATION_ID", "Application ID", "Chooses rules of this file: those of an application-id with this name, or with *.")
PARAM_BOOL(strict, VMA_STRICT, 0, "Strict", "A socket that should be accelerated and cannot be fails, instead of using the kernel.")
PARAM_STR(stats_file, VMA_STATS_FILE, "", "Stats File", "Append the counters of each socket to this file when it is closed; the first %d is replaced by the process id.")
PARAM_STR(stats_shmem_dir, VMA_STATS_SHMEM_DIR, "/tmp/", "Stats shared memory directory", "Where vma_stats finds the process, by the file vmastat.PID; empty: it does not.")
PARAM_INT(stats_fd_num, VMA_STATS_FD_NUM, 100, 0, 1024, "Stats FD Num (max)", "Number of sockets with counters.")
PARAM_BOOL(cpu_usage_stats, VMA_CPU_USAGE_STATS, 0, "Polling CPU idle usage", "Measure how long select, poll and epoll_wait poll, for vma_stats.")
PARAM_ENUM(ring_logic_tx, VMA_RING_ALLOCATION_LOGIC_TX, 0, ({0, "Ring per interface"}, {1, "Ring per ip"}, {10, "Ring per socket"}, {20, "Ring per thread"}, {30, "Ring per core"}, {31, "Ring per core - attach threads"}), "Ring allocation logic TX", "The ring through which a socket sends: 0 one per interface, 1 per local address, 10 per socket, 20 per thread, 30 per processor, 31 per processor with each thread bound to one.")
PARAM_ENUM(ring_logic_rx, VMA_RING_ALLOCATION_LOGIC_RX, 0, ({0, "Ring per interface"}, {1, "Ring per ip"}, {10, "Ring per socket"}, {20, "Ring per thread"}, {30, "Ring per core"}, {31, "Ring per core - attach threads"}), "Ring allocation logic RX", "The ring through which a socket receives: 0 one per interface, 1 per local address, 10 per socket, 20 per thread, 30 per processor, 31 per processor with each thread bound to one.")
PARAM_RATIO(ring_migration_tx, VMA_RING_MIGRATION_RATIO_TX, 100, 100000000, "Ring migration ratio TX", "With rings per thread or processor: after this many sends a socket checks whether another ring suits its thread better; -1 never.")
PARAM_RATIO(ring_migration_rx, VMA_RING_MIGRATION_RATIO_RX, 100, 100000000, "Ring migration ratio RX", "With rings per thread or processor: after this many receives a socket checks whether another ring suits its thread better; -1 never.")
PARAM_NAMED(ring_limit, VMA_RING_LIMIT_PER_INTERFACE, 0, 0, 100000000, ({0, "no limit"}), "Ring limit per interface", "Limit of rings on one interface: further sockets share the existing rings; 0 no limit.")
PARAM_STR(xdp_devices, VMA_XDP_DEVICES, "", "XDP devices", "Drivers and kinds of devices to accelerate in addition to the tested ones, separated by commas: ixgbe,tun.")
PARAM_INT(rx_bufs, VMA_RX_BUFS, 200000, 0, 100000000, "Rx Mem Bufs", "Limit of receive buffers of 2 KB in ordinary memory, in addition to the frames of the rings; they are allocated on demand, and a socket gets an eighth of the unused ones.")
PARAM_INT(rx_bytes_min, VMA_RX_BYTES_MIN, 65536, 0, 1000000000, "Rx Byte Min Limit", "Lower bound of the bytes a socket may queue, whatever SO_RCVBUF says.")
PARAM_INT(rx_poll, VMA_RX_POLL, 100000, -1, 100000000, "Rx Poll Loops", "How often a blocking receive polls before it sleeps; -1 polls forever, 0 acts as 1.")
PARAM_INT(rx_udp_poll_os_ratio, VMA_RX_UDP_POLL_OS_RATIO, 100, 0, 100000000, "Rx UDP Poll OS Ratio", "A UDP receive checks the kernel's socket once in this many polls; 0 never while polling.")
PARAM_BOOL(rx_poll_yield, VMA_RX_POLL_YIELD, 0, "Rx Poll Yield", "Yield the processor between two polls.")
PARAM_INT(gro_streams_max, VMA_GRO_STREAMS_MAX, 32, 0, 1024, "GRO max streams", "Limit of TCP streams whose frames of one poll are coalesced; 0 delivers each frame separately.")
PARAM_INT(select_poll, VMA_SELECT_POLL, 100000, -1, 100000000, "Select Poll (usec)", "How long select, poll and epoll_wait poll before they sleep; -1 polls forever, 0 does not poll.")
PARAM_INT(select_poll_os_ratio, VMA_SELECT_POLL_OS_RATIO, 10, 0, 100000000, "Select Poll OS Ratio", "select, poll and epoll_wait check the kernel's descriptors once in this many polls; 0 never while polling.")
PARAM_INT(select_skip_os, VMA_SELECT_SKIP_OS, 4, 0, 100000000, "Select Skip OS", "One of this many select, poll and epoll_wait calls checks the kernel's descriptors first; 0 never.")
PARAM_BOOL(tx_mc_loopback, VMA_TX_MC_LOOPBACK, 1, "Tx MC Loopback", "Initial value of IP_MULTICAST_LOOP.")
PARAM_BOOL(tx_nonblocked_eagains, VMA_TX_NONBLOCKED_EAGAINS, 0, "Tx non-blocked eagains", "A non-blocking UDP send that finds no free frame: 0 drops the datagram and succeeds, 1 returns EAGAIN.")
PARAM_INT(progress_interval, VMA_PROGRESS_ENGINE_INTERVAL, 10, 0, 10000, "CQ Drain Interval (msec)", "The internal thread polls rings that the program has not polled for this time; 0 never.")
PARAM_BOOL(xdp_zerocopy, VMA_XDP_ZEROCOPY, 1, "XDP zero-copy", "Let the driver receive into the library's frames and send from them, where it can; 0 copies every frame. The process that attaches first decides for all that share the interface.")
PARAM_ENUM(xdp_busy_poll, VMA_XDP_BUSY_POLL, 2, ({0, "Never"}, {1, "Always"}, {2, "Where it is quick"}), "XDP busy poll", "Zero-copy: a thread that polls runs the driver itself, with its interrupts masked: 0 never, 1 always, 2 where a call takes less than 20 microseconds.")
PARAM_NAMED(xdp_linger, VMA_XDP_LINGER, 10, 0, 86400, ({0, "not at all"}), "XDP linger (sec)", "How long a process stays attached to an interface after the last socket that used it: attaching resets the link of many cards; 0 not at all.")
PARAM_INT(progress_wce_max, VMA_PROGRESS_ENGINE_WCE_MAX, 10000, 1, 100000000, "CQ Drain WCE (max)", "Limit of frames that the internal thread takes from a ring at one visit.")
PARAM_INT(cq_poll_batch_max, VMA_CQ_POLL_BATCH_MAX, 16, 1, 128, "CQ Poll Batch (max)", "Limit of frames taken from a ring in one poll.")
PARAM_NAMED(tcp_max_syn_rate, VMA_TCP_MAX_SYN_RATE, 0, 0, 100000, ({0, "no limit"}), "TCP max syn rate", "Limit of new connections per second, for each listening socket and ring; further SYNs are dropped, and the peers retransmit them; 0 no limit.")
PARAM_BOOL(offloaded_sockets, VMA_OFFLOADED_SOCKETS, 1, "Offloaded Sockets", "Accelerate sockets; 0 leaves all of them to the kernel.")
PARAM_ENUM(tcp_timestamps, VMA_TCP_TIMESTAMP_OPTION, 2, ({0, "Disabled"}, {1, "Enabled"}, {2, "OS follow up"}), "TCP timestamp option", "TCP timestamps, if the peer supports them: 0 no, 1 yes, 2 as the kernel (net.ipv4.tcp_timestamps).")
PARAM_BOOL(tcp_nodelay, VMA_TCP_NODELAY, 0, "TCP nodelay", "Initial value of TCP_NODELAY.")
PARAM_ENUM(exception_handling, VMA_EXCEPTION_HANDLING, -1, ({-2, "exit on failed startup"}, {-1, "just log debug message"}, {0, "log debug and un-offload"}, {1, "log error and un-offload"}, {2, "Log Error and return error"}, {3, "Log Error and Abort!"}), "Exception handling mode", "An option or call that only the kernel can serve: -1 and 0 leave the socket to the kernel if no data flows yet, with a debug message; 1 likewise with an error message; 2 refuses it with an error message; 3 aborts the program; -2 is as -1, and ends the program if acceleration cannot start.")
PARAM_ENUM(tcp_cc_algo, VMA_TCP_CC_ALGO, 0, ({0, "LWIP"}, {1, "CUBIC"}, {2, "NONE"}), "TCP CC algo", "Congestion control of TCP: 0 NewReno, 1 CUBIC with HyStart++, 2 none.")
PARAM_CPUS(internal_thread_affinity, VMA_INTERNAL_THREAD_AFFINITY, "-1", "Internal Thread Affinity", "Processors of the internal thread: -1 any, a mask 0x3, or a list 1,3-5.")
PARAM_ENUM(thread_mode, VMA_THREAD_MODE, 1, ({0, "Single"}, {1, "Multi spin lock"}, {2, "Multi mutex lock"}, {3, "Multi more threads than cores"}), "Thread mode", "How many threads use the library: 0 one, 1 several (spin lock), 2 several (mutex), 3 more threads than cores.")
PARAM_INT(mtu, VMA_MTU, 0, 0, 65535, "MTU", "Upper bound of the interface's MTU; 0 follows the interface.")
PARAM_INT(mss, VMA_MSS, 0, 0, 65495, "MSS", "Upper bound of the TCP segment size; 0 follows the MTU.")
/* clang-format on */
