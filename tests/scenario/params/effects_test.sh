#!/bin/bash
# Each of these parameters has its effect: what the program, its peer or the kernel sees, with
# the parameter and without it.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	   w0 10.9.1.1 ---------- w0 10.9.1.2
#	effects.py CASE           effects.py peer, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

needs python3
case_of=(python3 tests/scenario/params/effects.py)
netns_pair ""
ip link add w0 netns c type veth peer name w0 netns s || die "no veth"
netns_up c w0 10.9.1.1
netns_up s w0 10.9.1.2
netns_spawn $netns_tmp/peer s "" "${case_of[@]}" peer || die "no peer"
[[ -n $lib ]] || verdict

# see CASE VARIABLE=VALUE...: $word is what the case prints, $netns_tmp/told all there is.
see() {
	vma_env=(VMA_TRACELEVEL=warn "${@:2}")
	# shellcheck disable=SC2086 # CASE may have arguments
	netns_run c "$lib" "${case_of[@]}" $1 > $netns_tmp/told
	word=$(sed -n 's/^=//p' $netns_tmp/told)
}

# is WHAT CASE WORD [VARIABLE=VALUE...]
is() {
	see "$2" "${@:4}"
	check "$1: $word" test "$word" == "$3"
}

has() {
	grep -q -- "$1" $netns_tmp/told
}

# Times are judged by what load cannot change: a limit or a delay makes each one at least so long, and
# without it one of many tries is short.

# ---- TCP

is "TCP_NODELAY is off" nodelay 0
is "VMA_TCP_NODELAY" nodelay 1 VMA_TCP_NODELAY=1
is "NewReno" congestion reno
is "VMA_TCP_CC_ALGO" congestion cubic VMA_TCP_CC_ALGO=1
is "segments fit the interface" segment 1448
is "VMA_MSS" segment 524 VMA_MSS=536
is "VMA_MTU" segment 948 VMA_MTU=1000
see acks
check "acknowledgements are delayed: $word ms" test "$word" -ge 20
see acks VMA_TCP_QUICKACK=1
check "VMA_TCP_QUICKACK: $word ms" test "$word" -lt 20

see "paced no"
check "100 kB without a limit: $word ms" test "$word" -lt 500
see "paced struct"
check "SO_MAX_PACING_RATE, 800 kbit/s as struct vma_rate_limit_t: $word ms" test "$word" -ge 700

for how in struct number; do
	see "paced_datagrams $how"
	check "SO_MAX_PACING_RATE of datagrams, 800 kbit/s as $how: $word ms" test "$word" -ge 700
done

# connects WHAT TRIES CONDITION VARIABLE...: to a listener, by two of its interfaces.
connects() {
	vma_env=(VMA_TRACELEVEL=warn "${@:4}")
	netns_spawn $netns_tmp/listener c "$lib" "${case_of[@]}" listen || die "no listener"
	word=$(vma_env=() netns_run s "" "${case_of[@]}" connect "$2" 10.9.0.1 10.9.1.1 | sed -n 's/^=//p')
	# shellcheck disable=SC2086 # an operator and a number
	check "$1: $word ms" test "$word" $3
	netns_kill $spawned
}
connects "a second connection at once" 50 "-lt 900"
connects "VMA_TCP_MAX_SYN_RATE holds for all interfaces" 1 "-ge 900" VMA_TCP_MAX_SYN_RATE=1

# ---- UDP

is "multicast is looped back" loopback yes
is "VMA_TX_MC_LOOPBACK" loopback no VMA_TX_MC_LOOPBACK=0
is "a lower bound of what a socket queues" queued 200 VMA_RX_BYTES_MIN=10000000
see queued VMA_RX_BYTES_MIN=0
check "VMA_RX_BYTES_MIN: $word of 200" test "$word" -lt 100
# Of datagrams that the kernel delivers: sender and receiver are of one process.
see polls VMA_LOCAL=0 VMA_RX_UDP_POLL_OS_RATIO=1
check "the kernel's socket at every poll: $word" test "$word" -le 2
see polls VMA_LOCAL=0 VMA_RX_UDP_POLL_OS_RATIO=500
check "VMA_RX_UDP_POLL_OS_RATIO: $word" test "$word" -gt 100

# ---- waiting

is "a receive" recv sleeps VMA_RX_POLL=0
is "VMA_RX_POLL=-1" recv polls VMA_RX_POLL=-1
is "a wait" select sleeps VMA_SELECT_POLL=0
is "VMA_SELECT_POLL=-1" select polls VMA_SELECT_POLL=-1
see "pipe 30000" VMA_SELECT_POLL=-1
check "a wait that polls sees the kernel's descriptors: $word ms" test "$word" -lt 30000
see "pipe 3000" VMA_SELECT_POLL=-1 VMA_SELECT_POLL_OS_RATIO=0
check "VMA_SELECT_POLL_OS_RATIO=0: $word ms" test "$word" -ge 3000
is "the kernel's descriptors at each call" both 100 VMA_SELECT_SKIP_OS=1
is "VMA_SELECT_SKIP_OS" both 10 VMA_SELECT_SKIP_OS=10

# ---- memory and queues

is "ordinary pages" pages 4
see pages VMA_MEM_ALLOC_TYPE=2
free=$(awk '/^HugePages_Free/ { print $2 }' /proc/meminfo)
if ((free >= 8)); then
	check "VMA_MEM_ALLOC_TYPE: $word kB" test "$word" -gt 4
	check "no warning of huge pages" eval '! has hugepage'
else
	check "VMA_MEM_ALLOC_TYPE without huge pages: $word kB" test "$word" == 4
	check "and a warning" has '\* Not enough hugepage resources for VMA memory allocation'
fi
is "memory of frames" umem 16
is "VMA_UMEM_MB" umem 40 VMA_UMEM_MB=40
is "VMA_UMEM_MB, whole huge pages" umem 20 VMA_UMEM_MB=21
is "VMA_UMEM_MB, less than the queues need" umem 16 VMA_UMEM_MB=4
is "RX and TX queues" queues 4096/2048
is "VMA_RX_WRE" queues 256/2048 VMA_RX_WRE=256
is "VMA_TX_WRE" queues 4096/512 VMA_TX_WRE=1000
vma_env=(VMA_TRACELEVEL=warn VMA_RX_WRE=256)
netns_spawn $netns_tmp/first c "$lib" "${case_of[@]}" hold || die "nobody holds"
is "a second process" queues 256/2048 VMA_TRACELEVEL=info VMA_LOG_FILE=$netns_tmp/second
check "is told what it gets" grep -q \
	'VMA INFO: v0: shared, as the process that attached first decided; 256 frames' $netns_tmp/second
netns_kill $spawned

# ---- the internal thread

netns_pick_cpus
is "VMA_INTERNAL_THREAD_AFFINITY" affinity "$cpu_server" VMA_INTERNAL_THREAD_AFFINITY="$cpu_server"
mkdir $netns_tmp/set && touch $netns_tmp/set/tasks
see nodelay VMA_INTERNAL_THREAD_CPUSET=$netns_tmp/set
check "VMA_INTERNAL_THREAD_CPUSET" grep -qxE '[0-9]+' $netns_tmp/set/tasks
see nodelay VMA_INTERNAL_THREAD_CPUSET=/nowhere
check "a cpuset that does not exist" has 'VMA_INTERNAL_THREAD_CPUSET: /nowhere/tasks: No such file'

# ---- the log

see nodelay VMA_TRACELEVEL=error VMA_NO=1
check "VMA_TRACELEVEL=error says nothing" eval '! has VMA'
see nodelay VMA_TRACELEVEL=4
check "VMA_TRACELEVEL=4 is debug" has 'VMA DEBUG: '
check "debug is not fine" eval '! has "VMA FINE"'
check "a high level is told" has '\* VMA is currently configured with high log level '
see loopback VMA_TRACELEVEL=fine VMA_TX_MC_LOOPBACK=0 # seconds in which nothing moves
check "fine says more" has 'VMA FINE: '
check "fine is not finer" eval '! has "VMA FINER"'
see loopback VMA_TRACELEVEL=finer VMA_TX_MC_LOOPBACK=0
check "finer says more yet" has 'VMA FINER: internal thread: '
see nodelay VMA_NO=1 VMA_LOG_DETAILS=1
check "VMA_LOG_DETAILS=1" has '^ Tid: *[0-9]* VMA WARNING: '
see nodelay VMA_NO=1 VMA_LOG_DETAILS=3
check "VMA_LOG_DETAILS=3" has '^ Time: *[0-9.]* Pid: *[0-9]* Tid: *[0-9]* VMA WARNING: '
see nodelay VMA_NO=1 VMA_LOG_FILE=$netns_tmp/log.%d
check "VMA_LOG_FILE" grep -q 'VMA WARNING: VMA_NO ' $netns_tmp/log.*
check "and nothing elsewhere" eval '! has VMA'
is "colours on a terminal" terminal colour VMA_NO=1
is "VMA_LOG_COLORS" terminal plain VMA_NO=1 VMA_LOG_COLORS=0
see crash
check "a crash is the program's" eval '! has "Segmentation fault at"'
see crash VMA_HANDLE_SIGSEGV=1
check "VMA_HANDLE_SIGSEGV" has 'VMA PANIC: Segmentation fault at address 0x8$'
check "and where" has 'VMA PANIC: #[0-9]* *0x[0-9a-f]* .*python'
verdict
