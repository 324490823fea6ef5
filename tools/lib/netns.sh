# Sourced by scenario tests, the demo and the bench: network namespaces joined by a veth pair, their
# counters, and programs that run in them.
#
# Everything is inside private network, mount, IPC and process namespaces, so any number of runs can
# execute at the same time, and nothing remains after a run, even if it is interrupted or killed.
#
#	c<tag>  v0 10.9.0.1/24 ------------ v0 10.9.0.2/24  s<tag>
#
# In the guest of tools/guest, $NETNS_NICS names two NICs that replace the veth pair, under its
# name: then there can be one pair at a time.
#
# After netns_enter: $netns_tmp is a directory that ends with the run, and $lib the path of the
# library there, or empty when LIB= selects the kernel.

netns_client=10.9.0.1
netns_server=10.9.0.2
netns_group=224.9.9.9

# The environment of sides with the library, and the commands that run them.
vma_env=(VMA_TRACELEVEL=warn)

die() {
	echo "${0##*/}: $*" >&2
	exit 1
}

# find_program PATH: under Bazel, or from an earlier build.
find_program() {
	local path

	for path in "$1" "bazel-bin/$1"; do
		[[ -x $path && -f $path ]] && realpath "$path" && return
	done
	die "no $1 (bazel build //${1%/*}:${1##*/})"
}

# find_python: $python is the interpreter itself.  python3 may be a script of a version manager, which
# starts several programs first, each with the library: half a minute in an emulated machine.
find_python() {
	python=$(python3 -c 'import sys; print(sys.executable)') || die "no python3"
}

# await SECONDS COMMAND...: repeats it every 10 ms until it succeeds, after a while every 40 ms.
await() {
	local now=${EPOCHREALTIME/[.,]/} end ms=10

	end=$((now + $1 * 1000000))
	until "${@:2}" > /dev/null 2>&1; do
		now=${EPOCHREALTIME/[.,]/}
		((now < end)) || return 1
		nap 0.0$ms
		((ms == 40)) || ms=$((ms + 5))
	done
}

# nap SECONDS: a sleep that starts no program: on some machines that takes a processor for longer than it sleeps.
nap() {
	if [[ -p ${netns_tmp:-}/never ]]; then
		read -rt "$1" <> "$netns_tmp/never"
	else
		sleep "$1"
	fi
}

# file_has FILE TEXT: as `grep -qF`, but starts no program. There is a $'\n' before each line, the first too.
file_has() {
	local text=

	IFS= read -rd '' text < "$1"
	[[ $'\n'$text == *"$2"* ]]
}

# netns_enter SCRIPT ARG...: runs SCRIPT again inside the namespaces, for at most NETNS_LIMIT
# seconds, and exits with its status; inside, it returns. A test (NAME_test, or one that sets $netns_judges)
# fails unless it comes to its verdict: it may end before it, with success.
netns_enter() {
	local pid rc concluded=

	if [[ ${NETNS_INSIDE:-} == 1 && $$ == 1 ]]; then
		unset NETNS_INSIDE
		netns_settle
		return
	fi
	[[ $(id -u) == 0 ]] || die "needs root: it makes network namespaces (run it with sudo)"
	[[ ${1%.sh} != *_test && -z ${netns_judges:-} ]] || concluded=$(mktemp) || die "no temporary file"
	# The second setpriv ends the processes inside when the watchdog is killed, the first ends
	# the watchdog when this shell is killed; inside, the script is process 1.
	NETNS_INSIDE=1 NETNS_CONCLUDED=$concluded setpriv --pdeathsig KILL timeout -s KILL "${NETNS_LIMIT:-600}" \
		setpriv --pdeathsig KILL \
		unshare --net --mount --ipc --pid --fork --kill-child=KILL --mount-proc "$BASH" "$@" &
	pid=$!
	trap 'kill -KILL $pid 2> /dev/null; wait $pid 2> /dev/null; rm -f $concluded; echo "interrupted" >&2; exit 130' INT TERM HUP
	wait $pid
	rc=$?
	trap - INT TERM HUP
	((rc != 137)) || echo "${0##*/}: killed, or longer than ${NETNS_LIMIT:-600} s" >&2
	[[ $rc != 0 || -z $concluded || -s $concluded ]] || {
		echo "${0##*/}: ended without a verdict" >&2
		rc=1
	}
	[[ -z $concluded ]] || rm -f "$concluded"
	exit $rc
}

# netns_stay: instead of netns_enter, for what runs without root: in the namespaces of the caller. There is
# one network namespace, `here`.
netns_stay() {
	netns_tmp=$(mktemp -d) || die "no directory for temporary files"
	mkfifo "$netns_tmp/never" # nobody writes to it: nap
	trap netns_go EXIT
	trap 'exit 130' INT TERM HUP
	netns_copy_lib
}

# What was started ends with the script.
netns_go() {
	local rc=$? pids

	trap - EXIT INT TERM HUP
	pids=$(jobs -p)
	[[ -z $pids ]] || kill -KILL $pids 2> /dev/null
	rm -rf "$netns_tmp"
	exit $rc
}

netns_settle() {
	mount -t tmpfs -o mode=755 none /run || die "cannot mount"
	netns_tmp=/run/scenario
	mkdir -p /run/netns $netns_tmp
	mkfifo $netns_tmp/never # nobody writes to it: nap
	ip link set lo up
	trap netns_leave EXIT
	netns_copy_lib
}

# netns_take_counter: from now on the library reads the processor's counter for the time (base/clock.h), also where the
# kernel does not: for tests that count what a call costs.
netns_take_counter() {
	echo tsc > $netns_tmp/clocksource
	mount --bind $netns_tmp/clocksource /sys/devices/system/clocksource/clocksource0/current_clocksource ||
		die "cannot mount over the clock source"
}

netns_copy_lib() {
	lib=
	[[ ${LIB=$(netns_find_lib)} ]] || return 0
	# A copy: builds may replace the file meanwhile, and any user can read the copy.
	lib=$netns_tmp/libvma.so
	cp "$LIB" "$lib" && chmod 755 "$lib" || die "no library at $LIB (bazel build //:libvma.so)"
}

netns_find_lib() {
	[[ -e libvma.so ]] && echo libvma.so || echo bazel-bin/libvma.so
}

# netns_needs_lib: for a test that says nothing about the kernel: with LIB= it fails, rather than pass.
netns_needs_lib() {
	[[ -n $lib ]] || die "this test is about the library, and LIB is empty"
}

# When process 1 ends, everything ends; nevertheless clean up in order.
netns_leave() {
	local rc=$?

	trap - EXIT
	exec 2> /dev/null
	kill -KILL -1
	wait
	exit $rc
}

# netns_pair TAG [LINK-OPTION...]: creates c<tag> and s<tag>, up and with addresses; NETNS_MTU is that
# of their link, NETNS_VLAN the VLAN of their addresses.  With NETNS_ONE_HOST both are one host.
netns_pair() {
	local tag=$1

	if [[ ${NETNS_ONE_HOST:-} ]]; then
		netns_one_host "$tag"
		return
	fi
	netns_new "c$tag"
	netns_new "s$tag"
	if [[ ${NETNS_NICS:-} ]]; then
		netns_move_nics "$tag"
	else
		netns_join "$@"
	fi
	if [[ ${NETNS_MTU:-} ]]; then
		ip -n "c$tag" link set v0 mtu "$NETNS_MTU" && ip -n "s$tag" link set v0 mtu "$NETNS_MTU" ||
			die "no MTU of $NETNS_MTU"
	fi
	[[ ! ${NETNS_VLAN:-} ]] || netns_tag "$tag" "$NETNS_VLAN"
	netns_up "c$tag" v0 $netns_client
	netns_up "s$tag" v0 $netns_server
	ip -n "c$tag" route add 224.0.0.0/4 dev v0
	ip -n "s$tag" route add 224.0.0.0/4 dev v0
	await 30 netns_is_up "c$tag" v0 && await 30 netns_is_up "s$tag" v0 || die "the link stays down"
	[[ ! ${NETNS_BOND:-} ]] || bond_settle "$tag" "$NETNS_BOND" || die "no slave is active"
}

# netns_one_host TAG: c<tag> and s<tag> are names of one namespace, which has both addresses.
netns_one_host() {
	netns_new "s$1"
	: > "/run/netns/c$1"
	mount --bind "/run/netns/s$1" "/run/netns/c$1" || die "no second name"
	ip -n "s$1" link add v0 type veth peer name w0 || die "no veth"
	ip -n "s$1" link set w0 up
	netns_up "s$1" v0 $netns_client
	netns_up "s$1" v0 $netns_server
	ip -n "s$1" route add 224.0.0.0/4 dev v0
	await 30 netns_is_up "s$1" v0 || die "the link stays down"
}

# netns_join TAG [LINK-OPTION...]: joins them by veth; with NETNS_CARD=1, by emulated ConnectX cards,
# which tests that have //tests/mlx5:cards can do; with NETNS_BOND=MODE, by bonds of veth.
netns_join() {
	local tag=$1 queues=()

	if [[ ${NETNS_CARD:-} ]]; then
		. tests/mlx5/card.sh
		(($# == 1)) || die "a card has no link options"
		card_pair "$tag"
		return
	fi

	if [[ ${NETNS_BOND:-} ]]; then
		. tests/guest/bond_lib.sh
		bond_pair "$tag" "$NETNS_BOND" || die "no bonds"
		return
	fi

	shift
	(($#)) || [[ ! ${NETNS_VETH_QUEUES:-} ]] ||
		queues=(numrxqueues "$NETNS_VETH_QUEUES" numtxqueues "$NETNS_VETH_QUEUES")
	ip link add v0 netns "c$tag" "$@" "${queues[@]}" type veth peer name v0 netns "s$tag" "${queues[@]}" ||
		die "no veth"
	(($# == 0)) || ip -n "s$tag" link set v0 "$@"
}

# netns_move_nics TAG: guest-nics can move them back from any namespace.
netns_move_nics() {
	local nics

	read -ra nics <<< "$NETNS_NICS"
	/usr/local/bin/guest-nics --move v0 "${nics[0]}" "c$1" "${nics[1]}" "s$1" || die "no NICs"
}

# netns_tag TAG ID: v0 becomes a VLAN device on the link, which is w0 from then on.
netns_tag() {
	local ns

	for ns in "c$1" "s$1"; do
		ip -n "$ns" link set v0 down && ip -n "$ns" link set v0 name w0 && ip -n "$ns" link set w0 up &&
			ip -n "$ns" link add link w0 name v0 type vlan id "$2" || die "no VLAN devices"
	done
}

# netns_new NAMESPACE: with only the loopback interface.
netns_new() {
	ip netns add "$1" && ip -n "$1" link set lo up || die "no namespace $1"
	# IPv6 packets at the start must not be among the counted traffic.
	in_ns "$1" sh -c 'for i in all default; do echo 1 > /proc/sys/net/ipv6/conf/$i/disable_ipv6; done' 2> /dev/null
}

# netns_up NAMESPACE INTERFACE ADDRESS
netns_up() {
	ip -n "$1" addr add "$3/24" dev "$2"
	ip -n "$1" link set "$2" up
}

# netns_ip6 NAMESPACE INTERFACE ADDRESS/LENGTH...: usable when it returns: the kernel adds the route to
# an address of its own in a work item that may wait for the lock of all network configuration.
netns_ip6() {
	local address

	in_ns "$1" sysctl -qw net.ipv6.conf.all.disable_ipv6=0 "net.ipv6.conf.$2.disable_ipv6=0"
	for address in "${@:3}"; do
		ip -n "$1" addr add "$address" dev "$2" nodad || die "no address $address in $1"
	done
	for address in "${@:3}"; do
		await 30 netns_has_ip6 "$1" "$2" "${address%/*}" || die "$address in $1 cannot be used"
	done
}

netns_has_ip6() {
	[[ $(ip -6 -n "$1" route show table local type local exact "$3" dev "$2") ]]
}

# netns_pair_ip6 TAG: fd00:9::1 on v0 of c<tag>, fd00:9::2 on that of s<tag>.
netns_pair_ip6() {
	netns_ip6 "c$1" v0 fd00:9::1/64
	netns_ip6 "s$1" v0 fd00:9::2/64
}

# netns_link_local TAG INTERFACE...: fe80::1 on each of these in c<tag>, fe80::2 in s<tag>.
netns_link_local() {
	local side link

	for side in "c$1:1" "s$1:2"; do
		# No addresses of the kernel's choice.
		for link in "${@:2}"; do
			in_ns "${side%:*}" sysctl -qw "net.ipv6.conf.$link.addr_gen_mode=1"
		done
		for link in "${@:2}"; do
			netns_ip6 "${side%:*}" "$link" "fe80::${side#*:}/64"
		done
	done
}

netns_is_up() {
	local state="state UP"

	# A card's interface is a tap, which has no carrier.
	[[ ! ${NETNS_CARD:-} || $2 != v0 ]] || state="LOWER_UP"
	[[ $(ip -n "$1" -o link show "$2") == *"$state"* ]]
}

netns_has_xdp() {
	[[ $(ip -n "$1" -o link show "$2") == *xdp* ]]
}

# Sets $enter: what runs a command in the namespace.
netns_way() {
	enter=(nsenter --net="/run/netns/$1" --)
	[[ $1 != here ]] || enter=()
}

# in_ns NAMESPACE COMMAND...
in_ns() {
	local enter

	netns_way "$1"
	"${enter[@]}" "${@:2}"
}

# netns_exec NAMESPACE LIB CPUS COMMAND...: becomes the command, so call it in a subshell or with &:
# then $! is the command itself. LIB may be empty. $around: a command that runs it, without the
# library.
around=()
netns_exec() {
	local enter preload=$2 cpus=$3 with=()

	netns_way "$1"
	shift 3
	# $SAN_RUNTIME: the library that a sanitized build needs preloaded first.
	[[ -z $preload ]] || with=(LD_PRELOAD="${SAN_RUNTIME:+$SAN_RUNTIME:}$preload" "${vma_env[@]}")
	exec "${enter[@]}" taskset -c "$cpus" "${around[@]}" env "${with[@]}" "$@"
}

# netns_tcp_ended NAMESPACE: each of its kernel's connections has ended, and both ends know it.
netns_tcp_ended() {
	[[ ! $(in_ns "$1" ss -Htan exclude listening exclude time-wait) ]]
}

# netns_counters NAMESPACE COUNTER...: values on one line, named as in nstat.
netns_counters() {
	in_ns "$1" awk -v want="${*:2}" '
		!($1 in names) { names[$1] = $0; next }
		{
			n = split(names[$1], name)
			for (i = 2; i <= n; i++)
				value[substr($1, 1, length($1) - 1) name[i]] = $i
		}
		END {
			n = split(want, name, " ")
			for (i = 1; i <= n; i++)
				printf "%s%s", value[name[i]] + 0, i < n ? " " : "\n"
		}' /proc/net/snmp
}

# A missing program must not make a test pass: install.sh installs it.
needs() {
	local program

	for program; do
		command -v "$program" > /dev/null || die "no $program (see tools/lib/install.sh)"
	done
}

# listens NAMESPACE PORT: has it a TCP listener there? Or a bound UDP socket: udp:PORT.
listens() {
	local kind=tcp state=0A

	[[ $2 != udp:* ]] || kind=udp state=07
	in_ns "$1" awk -v port="$(printf ':%04X' "${2#udp:}")" -v state=$state '
		$4 == state && substr($2, length($2) - 4) == port { found = 1 }
		END { exit !found }' /proc/net/$kind /proc/net/${kind}6
}

# netns_pick_cpus: $cpu_server and $cpu_client, the first two allowed ones.
netns_pick_cpus() {
	local allowed

	allowed=$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status |
		tr , '\n' | awk -F- '{ for (i = $1; i <= (NF > 1 ? $2 : $1); i++) print i }')
	# shellcheck disable=SC2086 # numbers, one a line
	set -- $allowed
	cpu_server=$1
	cpu_client=${2:-$1}
}

# netns_spawn LOG NAMESPACE LIB COMMAND...: in the background, on any processor; $spawned is its
# process. False if it does not print "ready" within 30 seconds (NETNS_READY).
netns_spawn() {
	local log=$1

	: > "$log"
	netns_exec "$2" "$3" 0-1023 "${@:4}" > "$log" 2>&1 < /dev/null &
	spawned=$!
	await "${NETNS_READY:-30}" is_ready "$log" "$spawned" && ! is_gone "$spawned"
}

# netns_threads PID...: for each thread its wake-ups and nanoseconds of processor time so far. Clock
# ticks would charge a whole tick to the thread that runs when it ends.
netns_threads() {
	local pid files=()

	for pid; do
		files+=(/proc/"$pid"/task/*/{schedstat,status})
	done
	awk '
		{ thread = FILENAME; sub("/[a-z]*$", "", thread) }
		FILENAME ~ /schedstat$/ { ran[thread] = $1 }
		$1 == "voluntary_ctxt_switches:" { print thread, $2, ran[thread] }' "${files[@]}"
} 2> /dev/null

# netns_used BEFORE AFTER, of netns_threads: the wake-ups of the thread with most of them, and the
# microseconds of all. False if these are not the same threads.
netns_used() {
	awk '
		!($1 in woke) { woke[$1] = $2; ran[$1] = $3; alone++; next }
		{ alone--; ns += $3 - ran[$1]; if ($2 - woke[$1] > most) most = $2 - woke[$1] }
		END { print most + 0, int(ns / 1000); exit alone != 0 }' <<< "$1"$'\n'"$2"
}

# netns_rests PID...: do these processes come to rest, and stay so for three seconds? Then no thread
# wakes up more than twice a second ($NETNS_WAKEUPS; that of the library does once), and all together
# use less than a tenth of a processor: what does not sleep uses all of one. The number of wake-ups is what finds
# periodic work, because in an idle virtual machine each of any program's may take a millisecond.
# Work that ends, as that of a start, only makes the three seconds begin again.
netns_rests() {
	local end=$((SECONDS + 60)) pid before='' after='' began=0 at=0 woke=0 us=0 used most=$((3 * ${NETNS_WAKEUPS:-2}))

	[[ $(< /proc/self/schedstat) != "0 "* ]] || die "the kernel does not count processor time"
	while ((at - began < 3000000 || !began)); do
		((SECONDS < end)) || {
			echo "     no rest: $woke wake-ups of a thread, $us us"
			return 1
		}
		sleep 0.2
		at=${EPOCHREALTIME/[.,]/}
		after=$(netns_threads "$@")
		for pid; do
			! is_gone "$pid" || return 1
		done
		used=$(netns_used "$before" "$after") && read -r woke us <<< "$used" && ((woke <= most && us < 300000)) && continue
		before=$after
		began=${EPOCHREALTIME/[.,]/}
	done
	echo "     $woke wake-ups of a thread, $us us in 3 s"
}

# netns_kill PID...: kills with SIGKILL, and waits for the end.
netns_kill() {
	kill -KILL "$@"
	wait "$@"
} 2> /dev/null

is_ready() {
	file_has "$1" $'\nready' || is_gone "$2"
}

# netns_run NAMESPACE LIB COMMAND...: in the foreground, 60 seconds at most.
netns_run() {
	(
		around=(timeout -s KILL 60)
		netns_exec "$1" "$2" 0-1023 "${@:3}" 2>&1 < /dev/null
	)
}

# ---- results ----------------------------------------------------------------

checks=0
failures=0

# check WHAT COMMAND...: prints one line per fact; a test continues after a failure.
check() {
	local what=$1

	shift
	checks=$((checks + 1))
	if "$@"; then
		echo "ok   $what"
	else
		echo "FAIL $what"
		failures=$((failures + 1))
		return 1
	fi
}

# netns_conclude: a test that has no verdict() has come to its end.
netns_conclude() {
	[[ -z ${NETNS_CONCLUDED:-} ]] || echo concluded > "$NETNS_CONCLUDED"
}

# Last command of a test.
verdict() {
	netns_conclude
	echo "$checks checks, $failures failed${lib:+, with the library}"
	((failures == 0 && checks > 0))
}

# netns_find_probe: the path of tests/scenario/probe.c's program.
netns_find_probe() {
	find_program "${PROBE:-tests/scenario/probe}"
}

# warnings LOG: the number of framed warnings that something is not accelerated.
warnings() {
	grep -c 'VMA WARNING: \* .*is not accelerated' "$1"
}

# ---- sockperf ---------------------------------------------------------------

# sockperf_serve LOG NAMESPACE LIB CPUS ARG...: $sockperf_server is its process; false if it does
# not become ready.
sockperf_serve() {
	local log=$1

	: > "$log"
	netns_exec "${@:2:3}" sockperf server "${@:5}" > "$log" 2>&1 < /dev/null &
	sockperf_server=$!
	# It prints this after its sockets are bound, listening, and in their groups.
	await 30 sockperf_is_ready "$log" && kill -0 $sockperf_server 2> /dev/null
}

sockperf_is_ready() {
	file_has "$1" 'to block on socket' || ! kill -0 $sockperf_server
}

# Tells the server to end, when it has read what its clients sent: it reports the number of received
# messages. Returns its status, or 137 with the places where its threads are.
sockperf_stop() {
	local pid=$sockperf_server asleep=0 began=

	await 30 sockperf_is_through $pid
	kill -INT $pid 2> /dev/null
	await 30 is_gone $pid || {
		netns_where $pid >&2
		kill -KILL $pid 2> /dev/null
	}
	wait $pid 2> /dev/null
}

# Its clients have ended: has the server, too, come to the end of what they sent? Its threads sleep in
# three looks, or have polled for 30 ms of processor time. A signal before that cuts off messages; and
# one between sockperf's look at its flag and accept() (it allocates 128 KiB there) is lost: it then
# waits for a connection for ever.
sockperf_is_through() {
	local task stat ns ran=0

	asleep=$((asleep + 1))
	for task in "/proc/$1/task/"*; do
		read -r stat < "$task/stat" || continue
		read -r ns _ < "$task/schedstat" || continue
		ran=$((ran + ns))
		[[ ${stat##*) } == S* ]] || asleep=0
	done
	began=${began:-$ran}
	((asleep >= 3 || ran - began >= 30000000)) || is_gone "$1"
} 2> /dev/null

# netns_where PID: prints where each of its threads is.
netns_where() {
	local task

	for task in /proc/"$1"/task/*; do
		echo "${task##*/} $(< "$task/comm"): $(< "$task/syscall")"
		grep -E '^(State|SigQ|SigPnd|ShdPnd|SigBlk|SigCgt|[a-z]*voluntary)' "$task/status"
		cat "$task/stack"
	done
	[[ -z $(type -P gdb) ]] || timeout -s KILL 20 gdb -batch -p "$1" -ex 'thread apply all bt' 2> /dev/null
}

# is_gone PID: it has ended, perhaps without being waited for.
is_gone() {
	local stat

	read -r stat < "/proc/$1/stat" || return 0
	[[ ${stat##*) } == Z* ]]
} 2> /dev/null

# sockperf_ask LOG NAMESPACE LIB CPUS ARG...: runs a client, at most 60 seconds.
sockperf_ask() {
	(netns_exec "${@:2:3}" timeout -s KILL 60 sockperf "${@:5}" > "$1" 2>&1 < /dev/null)
}

# sockperf_answers N LOG NAMESPACE LIB CPUS pp|ul ARG...: a client that ends a second after the first N answers, for which
# sockperf prints a dot, or after half a minute. One that ended by time would have no answer when a busy host takes a
# processor away for so long.
sockperf_answers() {
	local pid

	: > "$2"
	netns_exec "${@:3:3}" sockperf "${@:6}" -t 30 -a "$1" > "$2" 2>&1 < /dev/null &
	pid=$!
	! await 40 sockperf_is_answered "$2" $pid || sleep 1 # of messages
	kill -ALRM $pid 2> /dev/null # as its timer does
	await 10 is_gone $pid || kill -KILL $pid 2> /dev/null
	wait $pid
}

sockperf_is_answered() {
	file_has "$1" $'\n.' || is_gone "$2"
}

# sockperf_value LOG WHAT: the value that a client or a server reported; empty if it did not.
sockperf_value() {
	local text pattern

	text=$(< "$1")
	case $2 in
	p50) pattern='percentile 50\.000 = +([0-9.]+)' ;;
	p99) pattern='percentile 99\.000 = +([0-9.]+)' ;;
	p99.9) pattern='percentile 99\.900 = +([0-9.]+)' ;;
	sent) pattern='(SentMessages=|Total of )([0-9]+)' ;;
	received) pattern='ReceivedMessages=([0-9]+)' ;;
	faults) pattern='# (dropped messages = .* # out-of-order messages = [0-9]+)' ;;
	handled) pattern='Total ([0-9]+) messages received and handled' ;;
	gaps) pattern='Summary: Total Dropped/OOO: ([0-9]+)' ;;
	rate) pattern='Duration\] RunTime=([0-9.]+) sec; SentMessages=[0-9]+; ReceivedMessages=([0-9]+)' ;;
	valid) pattern='Duration\] RunTime=[0-9.]+ sec; SentMessages=([0-9]+); ReceivedMessages=([0-9]+)' ;;
	esac
	[[ $text =~ $pattern ]] || return 0
	if [[ $2 == valid ]]; then
		echo "${BASH_REMATCH[@]:1}"
	elif [[ $2 == rate ]]; then
		awk -v t="${BASH_REMATCH[1]}" -v n="${BASH_REMATCH[2]}" 'BEGIN { printf "%.0f\n", (t > 0 ? n / t : 0) }'
	else
		echo "${BASH_REMATCH[-1]}"
	fi
}
