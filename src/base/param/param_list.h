/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every parameter that the library knows, one line each, in the order of the banner.  There are
 * three classes.
 *
 * Acts: the library reads params.member.  tests/lint/params.txt names a test that shows the effect.
 *
 *   PARAM_INT(member, VARIABLE, default, min, max, label, sentence)
 *   PARAM_BOOL(member, VARIABLE, default, label, sentence)
 *   PARAM_STR(member, VARIABLE, default, label, sentence)
 *   PARAM_LEVEL(member, VARIABLE, default, label, sentence)     log level by name or number
 *   PARAM_ENUM(member, VARIABLE, default, names, label, sentence) one of the numbers named
 *   PARAM_NAMED(member, VARIABLE, default, min, max, names, label, sentence) some numbers named
 *   PARAM_RATIO(member, VARIABLE, default, max, label, sentence) -1 (off) or 1..max
 *   PARAM_CPUS(member, VARIABLE, default, label, sentence)      -1, 0xMASK or a list 1,3-5
 *   PARAM_SPEC(member, VARIABLE, default, label, sentence)      a profile (param_spec.c)
 *
 * Always so: the default is how the library always is.  Another value gets one warning, whose
 * text is the last argument.
 *
 *   ALWAYS_INT(VARIABLE, default, min, max, label, sentence, different)
 *   ALWAYS_BOOL(VARIABLE, default, label, sentence, different)
 *   ALWAYS_STR(VARIABLE, default, label, sentence, different)
 *   ALWAYS_ENUM(VARIABLE, default, names, label, sentence, different)
 *   ALWAYS_NAMED(VARIABLE, default, min, max, names, label, sentence, different)
 *
 * Needs a card or fabric: acts on ports that have it.  Elsewhere, a value other than the default
 * gets a line of level details.
 *
 *   CARD_INT(VARIABLE, default, min, max, label, sentence)
 *   CARD_BOOL(VARIABLE, default, label, sentence)
 *   CARD_NAMED(VARIABLE, default, min, max, names, label, sentence)
 *
 * And: OLD_NAME(OLD_VARIABLE, VARIABLE) an earlier name of a parameter
 *
 * Names are ({number, "shown in the banner"}, ...), in ascending order.  A text that begins with
 * "=" is shown instead of the number there.  PARAM_OTHERS stands for all other numbers.
 * A parameter without a label is in the banner only if it is set, and so is the profile.
 *
 * Parsing, the banner, `vma params` and docs/parameters.md come from this list.
 */
#ifndef PARAM_INT
#define PARAM_INT(...)
#endif
#ifndef PARAM_BOOL
#define PARAM_BOOL(...)
#endif
#ifndef PARAM_STR
#define PARAM_STR(...)
#endif
#ifndef PARAM_LEVEL
#define PARAM_LEVEL(...)
#endif
#ifndef PARAM_ENUM
#define PARAM_ENUM(...)
#endif
#ifndef PARAM_NAMED
#define PARAM_NAMED(...)
#endif
#ifndef PARAM_RATIO
#define PARAM_RATIO(...)
#endif
#ifndef PARAM_CPUS
#define PARAM_CPUS(...)
#endif
#ifndef PARAM_SPEC
#define PARAM_SPEC(...)
#endif
#ifndef ALWAYS_INT
#define ALWAYS_INT(...)
#endif
#ifndef ALWAYS_BOOL
#define ALWAYS_BOOL(...)
#endif
#ifndef ALWAYS_STR
#define ALWAYS_STR(...)
#endif
#ifndef ALWAYS_ENUM
#define ALWAYS_ENUM(...)
#endif
#ifndef ALWAYS_NAMED
#define ALWAYS_NAMED(...)
#endif
#ifndef CARD_INT
#define CARD_INT(...)
#endif
#ifndef CARD_BOOL
#define CARD_BOOL(...)
#endif
#ifndef CARD_NAMED
#define CARD_NAMED(...)
#endif
#ifndef OLD_NAME
#define OLD_NAME(...)
#endif
/* clang-format off */
PARAM_SPEC(spec, VMA_SPEC, 0, "VMA Spec", "A profile: other defaults for several parameters at once, by name or number; a variable overrides its profile.")
ALWAYS_INT(VMA_SPEC_PARAM1, 1, 0, 100000000, "", "Profiles 29west and wombat_fh: microseconds between two writes to a pipe that wake a reader.", "pipes belong to the kernel, which passes on every write")
ALWAYS_INT(VMA_SPEC_PARAM2, 1, 0, 100000000, "", "Profiles 29west and wombat_fh: how many writes to a pipe are held back at most.", "pipes belong to the kernel, which passes on every write")
PARAM_LEVEL(log_level, VMA_TRACELEVEL, LOG_INFO, "Log Level", "Messages above this level are not logged: none, panic (0), error (1), warn (2), info (3), details, debug (4), fine or func (5), finer or func_all (6), all.")
PARAM_INT(log_details, VMA_LOG_DETAILS, 0, 0, 3, "Log Details", "Details in front of each line: 1 thread id, 2 process and thread id, 3 time, process and thread id.")
PARAM_BOOL(log_colors, VMA_LOG_COLORS, 1, "Log Colors", "Colours when the log goes to a terminal.")
PARAM_STR(log_file, VMA_LOG_FILE, "", "Log File", "Write the log to this file instead of stderr; the first %d is replaced by the process id.")
PARAM_STR(stats_file, VMA_STATS_FILE, "", "Stats File", "Append the counters of each socket to this file when it is closed; the first %d is replaced by the process id.")
PARAM_STR(stats_shmem_dir, VMA_STATS_SHMEM_DIR, "/tmp/", "Stats shared memory directory", "Where vma_stats finds the process, by the file vmastat.PID; empty: it does not.")
ALWAYS_STR(VMA_VMAD_NOTIFY_DIR, "/tmp/vma", "SERVICE output directory", "The directory shared with the daemon vmad.", "there is no daemon: the processes of an interface end the connections of one that was killed")
PARAM_INT(stats_fd_num, VMA_STATS_FD_NUM, 100, 0, 1024, "Stats FD Num (max)", "Number of sockets with counters.")
PARAM_STR(config_file, VMA_CONFIG_FILE, "/etc/libvma.conf", "Conf File", "File with the rules which sockets are accelerated; the first %d is replaced by the process id. See libvma.conf(5).")
PARAM_STR(application_id, VMA_APPLICATION_ID, "VMA_DEFAULT_APPLICATION_ID", "Application ID", "Chooses rules of this file: those of an application-id with this name, or with *.")
PARAM_BOOL(stats_latency, VMA_STATS_LATENCY, 0, "Stats latency", "Measure how long received data waits until the program reads it, for vma_stats: a histogram for each socket with counters.")
PARAM_BOOL(cpu_usage_stats, VMA_CPU_USAGE_STATS, 0, "Polling CPU idle usage", "Measure how long select, poll and epoll_wait poll, for vma_stats.")
ALWAYS_BOOL(VMA_HANDLE_SIGINTR, 1, "SigIntr Ctrl-C Handle", "SIGINT ends calls that block, also while they poll, and a process that it ends closes its connections in order; the program's handler is called.", "the library always does so")
PARAM_BOOL(handle_sigsegv, VMA_HANDLE_SIGSEGV, 0, "SegFault Backtrace", "A fault that ends the program logs a backtrace first.")
PARAM_BOOL(strict, VMA_STRICT, 0, "Strict", "A socket that should be accelerated and cannot be fails, instead of using the kernel.")
PARAM_ENUM(ring_logic_tx, VMA_RING_ALLOCATION_LOGIC_TX, 0, ({0, "Ring per interface"}, {1, "Ring per ip"}, {10, "Ring per socket"}, {20, "Ring per thread"}, {30, "Ring per core"}, {31, "Ring per core - attach threads"}), "Ring allocation logic TX", "The ring through which a socket sends: 0 one per interface, 1 per local address, 10 per socket, 20 per thread, 30 per processor, 31 per processor with each thread bound to one.")
PARAM_ENUM(ring_logic_rx, VMA_RING_ALLOCATION_LOGIC_RX, 0, ({0, "Ring per interface"}, {1, "Ring per ip"}, {10, "Ring per socket"}, {20, "Ring per thread"}, {30, "Ring per core"}, {31, "Ring per core - attach threads"}), "Ring allocation logic RX", "The ring through which a socket receives: 0 one per interface, 1 per local address, 10 per socket, 20 per thread, 30 per processor, 31 per processor with each thread bound to one.")
PARAM_RATIO(ring_migration_tx, VMA_RING_MIGRATION_RATIO_TX, 100, 100000000, "Ring migration ratio TX", "With rings per thread or processor: after this many sends a socket checks whether another ring suits its thread better; -1 never.")
PARAM_RATIO(ring_migration_rx, VMA_RING_MIGRATION_RATIO_RX, 100, 100000000, "Ring migration ratio RX", "With rings per thread or processor: after this many receives a socket checks whether another ring suits its thread better; -1 never.")
PARAM_NAMED(ring_limit, VMA_RING_LIMIT_PER_INTERFACE, 0, 0, 100000000, ({0, "no limit"}), "Ring limit per interface", "Limit of rings on one interface: further sockets share the existing rings; 0 no limit.")
CARD_INT(VMA_RING_DEV_MEM_TX, 0, 0, 1000000000, "Ring On Device Memory TX", "Bytes of memory on the card, for each ring, that hold what is sent.")
PARAM_NAMED(tcp_max_syn_rate, VMA_TCP_MAX_SYN_RATE, 0, 0, 100000, ({0, "no limit"}, {PARAM_OTHERS, "per sec"}), "TCP max syn rate", "Limit of new connections per second, for each listening socket; further SYNs are dropped, and the peers retransmit them; 0 no limit.")
ALWAYS_INT(VMA_TX_SEGS_TCP, 1000000, 0, 100000000, "Tx Mem Segs TCP", "Limit of TCP segments that wait for acknowledgement. Memory for them is allocated on demand; SO_SNDBUF and net.ipv4.tcp_wmem are the limits.", "segments are allocated on demand, up to SO_SNDBUF of each socket")
ALWAYS_INT(VMA_TX_BUFS, 200000, 0, 100000000, "Tx Mem Bufs", "Buffers for sending. The frames of an interface serve both directions, and TCP keeps what it sends in memory that is allocated on demand.", "the frames of an interface serve both directions")
PARAM_INT(tx_wre, VMA_TX_WRE, 2048, 256, 100000000, "Tx QP WRE", "Limit of frames in the send queue of a ring, rounded down to a power of two; 2048 at most, fewer with several RX queues.")
PARAM_INT(tx_wre_batching, VMA_TX_WRE_BATCHING, 64, 1, 64, "Tx QP WRE Batching", "Frames that are sent before the card reports a completion (mlx5).")
PARAM_INT(tx_max_inline, VMA_TX_MAX_INLINE, 204, 0, 65535, "Tx Max QP INLINE", "The longest frame that is written to the card's queue itself (mlx5), in bytes; 974 at most, 0 none.")
PARAM_BOOL(tx_mc_loopback, VMA_TX_MC_LOOPBACK, 1, "Tx MC Loopback", "Initial value of IP_MULTICAST_LOOP.")
PARAM_BOOL(tx_nonblocked_eagains, VMA_TX_NONBLOCKED_EAGAINS, 0, "Tx non-blocked eagains", "A non-blocking UDP send that finds no free frame: 0 drops the datagram and succeeds, 1 returns EAGAIN.")
ALWAYS_INT(VMA_TX_PREFETCH_BYTES, 256, 0, 65535, "Tx Prefetch Bytes", "Bytes of a frame that are prefetched before data is copied to it. The processor's own prefetching does that for consecutive frames.", "the library prefetches no frames that it writes")
PARAM_INT(rx_bufs, VMA_RX_BUFS, 200000, 0, 100000000, "Rx Mem Bufs", "Limit of receive buffers of 2 KB in ordinary memory, in addition to the frames of the rings; they are allocated on demand, and a socket gets an eighth of the unused ones.")
PARAM_INT(rx_wre, VMA_RX_WRE, 16000, 256, 100000000, "Rx QP WRE", "Limit of free frames that wait in each RX queue of an interface; 4096 at most. The process that attaches first decides for all that share the interface.")
PARAM_INT(rx_wre_batching, VMA_RX_WRE_BATCHING, 64, 1, 1024, "Rx QP WRE Batching", "Frames that are given back to the card at once (mlx5).")
PARAM_INT(rx_bytes_min, VMA_RX_BYTES_MIN, 65536, 0, 1000000000, "Rx Byte Min Limit", "Lower bound of the bytes a socket may queue, whatever SO_RCVBUF says.")
PARAM_INT(rx_poll, VMA_RX_POLL, 100000, -1, 100000000, "Rx Poll Loops", "How often a blocking receive polls before it sleeps; -1 polls forever, 0 acts as 1.")
ALWAYS_INT(VMA_RX_POLL_INIT, 0, -1, 100000000, "Rx Poll Init Loops", "How often a UDP socket polls that no accelerated traffic can reach yet.", "such a socket sleeps in the kernel; VMA_RX_POLL holds from bind() on")
PARAM_NAMED(rx_udp_poll_os_ratio, VMA_RX_UDP_POLL_OS_RATIO, 100, 0, 100000000, ({0, "=Disabled"}), "Rx UDP Poll OS Ratio", "A UDP receive checks the kernel's socket once in this many polls; 0 never while polling.")
PARAM_INT(hw_ts_conversion, VMA_HW_TS_CONVERSION, 3, 0, 4, "HW TS Conversion", "How the card's time stamps become times: 0 not at all, 1 the card's own clock, 2 the best that there is, 3 in step with the system's clock, 4 PTP.")
PARAM_BOOL(rx_poll_yield, VMA_RX_POLL_YIELD, 0, "Rx Poll Yield", "Yield the processor between two polls.")
ALWAYS_INT(VMA_RX_PREFETCH_BYTES, 256, 32, 2044, "Rx Prefetch Bytes", "Bytes of a received frame that are prefetched. The library prefetches the headers of the next frame while it handles one.", "the library prefetches the headers of the next frame")
ALWAYS_INT(VMA_RX_PREFETCH_BYTES_BEFORE_POLL, 0, 0, 2044, "Rx Prefetch Bytes Before Poll", "Bytes of the next frame that are prefetched before it has arrived.", "the library does not prefetch frames that have not arrived")
ALWAYS_NAMED(VMA_RX_CQ_DRAIN_RATE_NSEC, 0, 0, 1000000000, ({0, "=Disabled"}), "Rx CQ Drain Rate", "0: a receive returns what is queued without a poll.", "a receive that finds data queued returns it without a poll")
PARAM_NAMED(gro_streams_max, VMA_GRO_STREAMS_MAX, 32, 0, 128, ({0, "=Disabled"}), "GRO max streams", "Limit of TCP streams whose frames of one poll are coalesced; one poll has 128 frames at most; 0 delivers each frame separately.")
PARAM_BOOL(tcp_3t_rules, VMA_TCP_3T_RULES, 0, "TCP 3T rules", "Steer TCP by local address and port only (mlx5): an accepted connection has no rule of its own.")
PARAM_BOOL(udp_3t_rules, VMA_UDP_3T_RULES, 1, "UDP 3T rules", "Steer connected UDP sockets by local address and port only (mlx5), if no other socket may have these.")
PARAM_BOOL(eth_mc_l2_only_rules, VMA_ETH_MC_L2_ONLY_RULES, 0, "ETH MC L2 only rules", "Steer multicast by the Ethernet address only (mlx5): one rule for all ports and groups that have it.")
PARAM_BOOL(mc_force_flowtag, VMA_MC_FORCE_FLOWTAG, 0, "Force Flowtag for MC", "Let the card name the receiver of multicast (mlx5), too: not if programs without the library make rules of the card for the same groups.")
PARAM_INT(select_poll, VMA_SELECT_POLL, 100000, -1, 100000000, "Select Poll (usec)", "How long select, poll and epoll_wait poll before they sleep; -1 polls forever, 0 does not poll.")
PARAM_BOOL(select_poll_os_force, VMA_SELECT_POLL_OS_FORCE, 0, "Select Poll OS Force", "1 sets VMA_SELECT_POLL_OS_RATIO and VMA_SELECT_SKIP_OS to 1, if they are not set themselves.")
PARAM_NAMED(select_poll_os_ratio, VMA_SELECT_POLL_OS_RATIO, 10, 0, 100000000, ({0, "=Disabled"}), "Select Poll OS Ratio", "select, poll and epoll_wait check the kernel's descriptors once in this many polls; 0 never while polling.")
PARAM_NAMED(select_skip_os, VMA_SELECT_SKIP_OS, 4, 0, 100000000, ({0, "=Disabled"}), "Select Skip OS", "One of this many select, poll and epoll_wait calls checks the kernel's descriptors first; 0 never.")
PARAM_NAMED(progress_interval, VMA_PROGRESS_ENGINE_INTERVAL, 10, 0, 10000, ({0, "=Disabled"}), "CQ Drain Interval (msec)", "The internal thread polls rings that the program has not polled for this time; 0 never.")
PARAM_INT(progress_wce_max, VMA_PROGRESS_ENGINE_WCE_MAX, 10000, 1, 100000000, "CQ Drain WCE (max)", "Limit of frames that the internal thread takes from a ring at one visit.")
PARAM_BOOL(cq_moderation, VMA_CQ_MODERATION_ENABLE, 1, "CQ Interrupts Moderation", "The card holds interrupts back (mlx5). On other interfaces the driver decides: ethtool -C.")
PARAM_INT(cq_moderation_frames, VMA_CQ_MODERATION_COUNT, 48, 0, 100000000, "CQ Moderation Count", "Frames after which the card interrupts, 65535 at most; 0: each one (mlx5).")
PARAM_INT(cq_moderation_usec, VMA_CQ_MODERATION_PERIOD_USEC, 50, 0, 100000000, "CQ Moderation Period (usec)", "Microseconds after which the card interrupts, 65535 at most; 0: at once (mlx5).")
PARAM_INT(cq_aim_max_frames, VMA_CQ_AIM_MAX_COUNT, 560, 0, 100000000, "CQ AIM Max Count", "Adaptive moderation: upper bound of the frames (mlx5).")
PARAM_INT(cq_aim_max_usec, VMA_CQ_AIM_MAX_PERIOD_USEC, 250, 0, 100000000, "CQ AIM Max Period (usec)", "Adaptive moderation: upper bound of the microseconds (mlx5).")
PARAM_NAMED(cq_aim_interval, VMA_CQ_AIM_INTERVAL_MSEC, 250, 0, 100000000, ({0, "=Disabled"}), "CQ AIM Interval (msec)", "Adaptive moderation: how often the card's values are adapted, by a thread that is about to sleep; 0 never (mlx5).")
PARAM_INT(cq_aim_rate, VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC, 5000, 0, 100000000, "CQ AIM Interrupts Rate (per sec)", "Adaptive moderation: how many interrupts a second it aims at (mlx5).")
PARAM_INT(cq_poll_batch_max, VMA_CQ_POLL_BATCH_MAX, 16, 1, 128, "CQ Poll Batch (max)", "Limit of frames taken from a ring in one poll.")
ALWAYS_BOOL(VMA_CQ_KEEP_QP_FULL, 1, "CQ Keeps QP Full", "The RX queue gets a free frame for each one that it delivers; where frames run short, what is queued is copied to ordinary memory.", "the RX queue is always kept full")
CARD_INT(VMA_QP_COMPENSATION_LEVEL, 256, 1, 100000000, "QP Compensation Level", "Spare receive buffers that each ring keeps.")
PARAM_BOOL(offloaded_sockets, VMA_OFFLOADED_SOCKETS, 1, "Offloaded Sockets", "Accelerate sockets; 0 leaves all of them to the kernel.")
PARAM_BOOL(local, VMA_LOCAL, 1, "Local connections", "Accelerated programs of one user on one host exchange data through shared memory; 0 leaves that to the kernel.")
PARAM_INT(local_mem, VMA_LOCAL_MEM, 1024, 1, 1000000, "Local Mem (MB)", "Limit of the memory, in MB, of the local connections that the process begins: they get smaller buffers where it runs low, and a connection without room uses the kernel.")
ALWAYS_INT(VMA_TIMER_RESOLUTION_MSEC, 10, 1, 10000, "Timer Resolution (msec)", "How exact timers are. Timers of the library expire at their deadline, to the microsecond where a thread polls, to the millisecond where the internal thread serves them.", "timers are as exact as the thread that serves them: microseconds where a thread polls")
ALWAYS_INT(VMA_TCP_TIMER_RESOLUTION_MSEC, 100, 1, 10000, "TCP Timer Resolution (msec)", "How exact the timers of TCP are; see VMA_TIMER_RESOLUTION_MSEC.", "timers of TCP expire at their deadline, not at a tick")
ALWAYS_ENUM(VMA_TCP_CTL_THREAD, 0, ({0, "Disabled"}, {1, "Delegate TCP control flows"}, {2, "With timer"}), "TCP control thread", "Handshakes are answered by the thread that polls the ring; the internal thread serves a ring that no other thread polls.", "handshakes are answered by the thread that polls the ring")
PARAM_ENUM(tcp_timestamps, VMA_TCP_TIMESTAMP_OPTION, 2, ({0, "Disabled"}, {1, "Enabled"}, {2, "OS follow up"}), "TCP timestamp option", "TCP timestamps, if the peer supports them: 0 no, 1 yes, 2 as the kernel (net.ipv4.tcp_timestamps).")
PARAM_BOOL(tcp_nodelay, VMA_TCP_NODELAY, 0, "TCP nodelay", "Initial value of TCP_NODELAY.")
PARAM_BOOL(tcp_quickack, VMA_TCP_QUICKACK, 0, "TCP quickack", "1: TCP acknowledges data at once, without the delay that lets an acknowledgement travel with data; TCP_QUICKACK changes that per socket.")
PARAM_ENUM(exception_handling, VMA_EXCEPTION_HANDLING, -1, ({-2, "exit on failed startup"}, {-1, "just log debug message"}, {0, "log debug and un-offload"}, {1, "log error and un-offload"}, {2, "Log Error and return error"}, {3, "Log Error and Abort!"}), "Exception handling mode", "An option or call that only the kernel can serve: -1 and 0 leave the socket to the kernel if no data flows yet, with a debug message; 1 likewise with an error message; 2 refuses it with an error message; 3 aborts the program; -2 is as -1, and ends the program if acceleration cannot start.")
ALWAYS_BOOL(VMA_AVOID_SYS_CALLS_ON_TCP_FD, 0, "Avoid sys-calls on tcp fd", "Options and flags of connected TCP sockets are set on the kernel's socket, too, which checks them.", "options of connected TCP sockets are set on the kernel's socket, too")
ALWAYS_BOOL(VMA_ALLOW_PRIVILEGED_SOCK_OPT, 0, "Allow privileged sock opt", "An option that the kernel refuses to this user (SO_BINDTODEVICE) fails.", "what the kernel refuses to this user fails")
CARD_INT(VMA_WAIT_AFTER_JOIN_MSEC, 0, 0, 100000, "Delay after join (msec)", "InfiniBand: delay of the first datagram to a group, until the subnet manager has set the group up.")
PARAM_CPUS(internal_thread_affinity, VMA_INTERNAL_THREAD_AFFINITY, "-1", "Internal Thread Affinity", "Processors of the internal thread: -1 any, a mask 0x3, or a list 1,3-5.")
PARAM_STR(internal_thread_cpuset, VMA_INTERNAL_THREAD_CPUSET, "", "Internal Thread Cpuset", "A cpuset (cgroup v1), such as /dev/cpuset/my_set, that the internal thread enters: its id is written to the file tasks there.")
PARAM_BOOL(internal_thread_arm_cq, VMA_INTERNAL_THREAD_ARM_CQ, 0, "Internal Thread Arm CQ", "1: the internal thread wakes for every frame that arrives and handles it, also on rings that the program polls.")
ALWAYS_ENUM(VMA_INTERNAL_THREAD_TCP_TIMER_HANDLING, 0, ({0, "deferred"}, {1, "immediate"}), "Internal Thread TCP Handling", "Timers of TCP are served by the thread that polls the ring, by the internal thread where no other thread polls.", "the internal thread serves timers only where no other thread does")
PARAM_ENUM(thread_mode, VMA_THREAD_MODE, 1, ({0, "=Single"}, {1, "=Multi spin lock"}, {2, "=Multi mutex lock"}, {3, "=Multi more threads than cores"}), "Thread mode", "How many threads use the library: 0 one (a second one changes it to 1), 1 several (spin lock), 2 several (mutex), 3 more threads than cores.")
ALWAYS_ENUM(VMA_BUFFER_BATCHING_MODE, 1, ({0, "No batching buffers"}, {1, "Batch and reclaim buffers"}, {2, "Batch and don't reclaim buffers"}), "Buffer batching mode", "Rings take free frames and return them in batches; a ring at rest returns what it does not need.", "rings always take and return frames in batches, and return what they do not need")
PARAM_ENUM(mem_alloc_type, VMA_MEM_ALLOC_TYPE, 1, ({0, "Malloc"}, {1, "Contig Pages"}, {2, "Huge Pages"}), "Mem Allocate type", "Memory of frames: 0 and 1 ordinary pages, 2 huge pages, or ordinary ones where these are too few. The process that attaches first decides for all that share the interface.")
PARAM_INT(umem_mb, VMA_UMEM_MB, 0, 0, 128, "Frames memory (MB)", "Locked memory for the frames of an interface, in megabytes; 0, or less than its RX queues need: 16, or 2 for each RX queue if that is more. The process that attaches first decides for all that share the interface.")
ALWAYS_INT(VMA_NEIGH_UC_ARP_QUATA, 3, 0, 100000, "Num of UC ARPs", "Requests to the known address of a neighbour before a broadcast. The kernel resolves neighbours.", "the kernel resolves neighbours: net.ipv4.neigh.IF.ucast_solicit")
ALWAYS_INT(VMA_NEIGH_UC_ARP_DELAY_MSEC, 10000, 0, 100000000, "UC ARP delay (msec)", "Time between two such requests. The kernel resolves neighbours.", "the kernel resolves neighbours: net.ipv4.neigh.IF.retrans_time_ms")
ALWAYS_INT(VMA_NEIGH_NUM_ERR_RETRIES, 1, 0, 100000, "Num of neigh restart retries", "How often a neighbour that failed is tried again. The kernel resolves neighbours.", "the kernel resolves neighbours, and a later packet has it try again")
ALWAYS_INT(VMA_NETLINK_TIMER, 10000, 1, 100000000, "", "Milliseconds between two reads of the kernel's neighbours. The kernel tells the library of each change.", "the kernel tells the library of each change at once")
CARD_BOOL(VMA_IPOIB, 1, "IPOIB support", "Accelerate sockets over InfiniBand.")
PARAM_BOOL(socketxtreme, VMA_SOCKETXTREME, 0, "SocketXtreme mode", "The socketxtreme calls of the extra API report packets and events of the sockets of a ring; sockets stay on their rings.")
PARAM_BOOL(blue_flame, VMA_BF, 1, "BF (Blue Flame)", "Write a short request to the card's doorbell register whole (mlx5).")
ALWAYS_BOOL(VMA_FORK, 1, "fork() support", "Sockets work in both processes after fork().", "sockets always work in both processes after fork()")
ALWAYS_BOOL(VMA_CLOSE_ON_DUP2, 1, "close on dup2()", "dup2() closes the socket that had the number, and the number is the other socket from then on.", "dup2() always closes the socket that had the number")
PARAM_NAMED(mtu, VMA_MTU, 0, 0, 65535, ({0, "follow actual MTU"}), "MTU", "Upper bound of the interface's MTU; 0 follows the interface.")
PARAM_NAMED(mss, VMA_MSS, 0, 0, 65495, ({0, "follow VMA_MTU"}), "MSS", "Upper bound of the TCP segment size; 0 follows the MTU.")
PARAM_ENUM(tcp_cc_algo, VMA_TCP_CC_ALGO, 0, ({0, "LWIP"}, {1, "CUBIC"}, {2, "NONE"}), "TCP CC Algorithm", "Congestion control of TCP: 0 NewReno, 1 CUBIC with HyStart++, 2 none.")
ALWAYS_BOOL(VMA_DEFERRED_CLOSE, 1, "Deferred close", "The kernel's socket, and so the port, stays until the connection has ended.", "the port always stays reserved until the connection has ended")
ALWAYS_BOOL(VMA_RX_POLL_ON_TX_TCP, 0, "Polling Rx on Tx TCP", "A send on TCP polls its ring, to get acknowledgements early.", "a send polls only where the send buffer is full")
ALWAYS_BOOL(VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME, 0, "Trig dummy send getsockname()", "getsockname() warms the caches of the send path.", "getsockname() sends nothing")
ALWAYS_INT(VMA_TIME_MEASURE_NUM_SAMPLES, 10000, 0, 100000000, "", "Samples of a build of the original that measures itself.", "this version does not measure itself")
ALWAYS_STR(VMA_TIME_MEASURE_DUMP_FILE, "/tmp/VMA_inst.dump", "", "The file for these samples.", "this version does not measure itself")
ALWAYS_STR(VMA_LOG_CB_FUNC_PTR, "", "", "The address of a function that gets the log.", "the log goes to stderr or VMA_LOG_FILE: an address in the environment is not called")
ALWAYS_INT(VMA_DBG_SEND_MCPKT_COUNTER, 0, 0, 100000000, "", "Debugging of the original: datagrams that are sent at start.", "the library sends no datagrams of its own")
ALWAYS_STR(VMA_DBG_SEND_MCPKT_MCGROUP, "", "", "Debugging of the original: the group that they are sent to.", "the library sends no datagrams of its own")
ALWAYS_BOOL(VMA_RX_SW_CSUM, 1, "", "Checksums are checked in software where the interface has not checked them.", "the library checks every checksum that the interface has not checked")
ALWAYS_BOOL(VMA_HUGETBL, 0, "", "Replaced by VMA_MEM_ALLOC_TYPE.", "VMA_MEM_ALLOC_TYPE=2 asks for huge pages")
ALWAYS_INT(VMA_WINDOW_SCALING, 3, -1, 14, "", "The window scale of TCP, which follows the largest receive buffer (net.ipv4.tcp_rmem).", "the window scale follows net.ipv4.tcp_rmem")
ALWAYS_INT(VMA_TX_BACKLOG_MAX, 100, 0, 100000000, "", "Limit of packets that wait for a neighbour.", "the library limits them for each neighbour")
ALWAYS_BOOL(VMA_SELECT_POLL_YIELD, 0, "", "Yield the processor between two polls of select, poll and epoll_wait.", "VMA_RX_POLL_YIELD=1 holds for these calls, too")
ALWAYS_BOOL(VMA_SELECT_CQ_IRQ, 1, "", "select, poll and epoll_wait wake at frames that arrive while they sleep.", "they always wake")
ALWAYS_BOOL(VMA_SUPPRESS_IGMP_WARNING, 1, "", "No warning about the version of IGMP, which belongs to the kernel.", "the library has no such warning")
ALWAYS_BOOL(VMA_IGMP, 1, "", "IGMP belongs to the kernel.", "the kernel always joins groups")
CARD_INT(VMA_WAIT_AFTER_REREG_MSEC, 500, 0, 100000, "", "InfiniBand: delay after the subnet manager asked for groups to be joined again.")
PARAM_STR(xdp_devices, VMA_XDP_DEVICES, "", "XDP devices", "Drivers and kinds of devices to accelerate in addition to the tested ones, separated by commas: ixgbe,tun.")
PARAM_BOOL(xdp_zerocopy, VMA_XDP_ZEROCOPY, 1, "XDP zero-copy", "Let the driver receive into the library's frames and send from them, where it can; 0 copies every frame. The process that attaches first decides for all that share the interface.")
PARAM_ENUM(xdp_busy_poll, VMA_XDP_BUSY_POLL, 2, ({0, "Never"}, {1, "Always"}, {2, "Where it is quick"}), "XDP busy poll", "Zero-copy: a thread that polls runs the driver itself, with its interrupts masked: 0 never, 1 always, 2 where a call takes less than 20 microseconds.")
PARAM_NAMED(xdp_linger, VMA_XDP_LINGER, 10, 0, 86400, ({0, "not at all"}), "XDP linger (sec)", "How long a process stays attached to an interface after the last socket that used it, its own or that of a process that shares it: attaching resets the link of many cards; 0 not at all.")
OLD_NAME(VMA_RX_POLL_OS_RATIO, VMA_RX_UDP_POLL_OS_RATIO)
OLD_NAME(VMA_RX_SKIP_OS, VMA_RX_UDP_POLL_OS_RATIO)
OLD_NAME(VMA_MAX_INLINE, VMA_TX_MAX_INLINE)
OLD_NAME(VMA_CQ_DRAIN_WCE_MAX, VMA_PROGRESS_ENGINE_WCE_MAX)
OLD_NAME(VMA_HUGETLB, VMA_HUGETBL)
/* clang-format on */
#undef PARAM_INT
#undef PARAM_BOOL
#undef PARAM_STR
#undef PARAM_LEVEL
#undef PARAM_ENUM
#undef PARAM_NAMED
#undef PARAM_RATIO
#undef PARAM_CPUS
#undef PARAM_SPEC
#undef ALWAYS_INT
#undef ALWAYS_BOOL
#undef ALWAYS_STR
#undef ALWAYS_ENUM
#undef ALWAYS_NAMED
#undef CARD_INT
#undef CARD_BOOL
#undef CARD_NAMED
#undef OLD_NAME
