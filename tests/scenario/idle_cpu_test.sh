#!/bin/bash
# A receiver that waits, however it waits, uses no processor once its poll budget
# is spent, and wakes up when something comes.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	asks, by the kernel       one thread per way to wait
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
netns_pair ""

ticks() {
	local stat

	stat=$(< "/proc/$1/stat")
	# shellcheck disable=SC2086 # fields; utime and stime are the 14th and 15th
	set -- ${stat##*) }
	echo $((${12} + ${13}))
}

# Its threads spin for the budget of theirs after a start and after a wake-up.
is_quiet() {
	local before

	before=$(ticks "$1")
	sleep 0.3
	(($(ticks "$1") == before))
}

# idle PID: under two ticks (20 ms) in three seconds.
idle() {
	local before spent

	for ((try = 0; try < 20; try++)); do
		is_quiet "$1" && break
	done
	before=$(ticks "$1")
	sleep 3
	spent=$(($(ticks "$1") - before))
	((spent < 2)) || { echo "     $spent ticks in 3 s"; return 1; }
}

answered() {
	netns_run c "" "$probe" ask "$@" > $netns_tmp/ask
	grep -q answers $netns_tmp/ask || { cat $netns_tmp/ask; return 1; }
}

check "the receivers start" netns_spawn $netns_tmp/serve s "$lib" "$probe" serve \
	udp:7001:recv udp:7002:poll udp:7003:select udp:7004:epoll \
	tcp:7001:recv tcp:7002:poll tcp:7003:select tcp:7004:epoll tcp:7005:recv tcp:7006:epoll
server=$spawned
check "a connection that says nothing" netns_spawn $netns_tmp/hold c "" "$probe" hold $netns_server 7005
check "another" netns_spawn $netns_tmp/hold2 c "" "$probe" hold $netns_server 7006
check "idle from the start" idle $server
before=$(netns_counters s UdpInDatagrams TcpInSegs)
for port in 7001 7002 7003 7004; do
	check "udp $port wakes up" answered udp $netns_server $port 3
	check "tcp $port wakes up" answered tcp $netns_server $port 3
done
[[ -z $lib ]] || check "past the kernel" test "$before" = "$(netns_counters s UdpInDatagrams TcpInSegs)"
check "idle again" idle $server
check "still alive" kill -0 $server
[[ ! -s $netns_tmp/serve ]] || grep -v '^ready' $netns_tmp/serve
verdict
