#!/bin/bash
# VMA_SPEC=latency is for one thread that uses sockets. If a second one comes, the process goes over
# to thread mode 1: everything arrives, and one warning says what happened and what to do.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	second.py CASE            echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

needs python3
probe=$(netns_find_probe) || exit 1
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"

# comes CASE ANSWERS [VARIABLE=VALUE...]: all of them are right.
comes() {
	log=$netns_tmp/log.$1
	rm -f "$log"
	vma_env=(VMA_TRACELEVEL=debug VMA_LOG_FILE="$log" "${@:3}")
	netns_run c "$lib" timeout 60 python3 tests/scenario/start/second.py "$1" $netns_server 7000 \
		> $netns_tmp/told
	check "$1: $2 answers (${*:3})" test "$(< $netns_tmp/told)" == "=$2" || cat $netns_tmp/told
}

warned() {
	[[ $(grep -c "WARNING: A second thread uses sockets.*mode 1.*Set VMA_THREAD_MODE=1" "$log") == "$1" ]]
}

accelerated() {
	grep -q 'ring [0-9]* on v0 opened' "$log"
}

# with N CASE ANSWERS [VARIABLE=VALUE...]: it is accelerated and warns N times.
with() {
	comes "${@:2}"
	[[ -n $lib ]] || return
	check "$2: accelerated" accelerated
	check "$2: $1 warnings" warned "$1"
}

with 0 alone 600 VMA_SPEC=latency
with 0 idle 600 VMA_SPEC=latency
with 0 forked 40 VMA_SPEC=latency
with 1 worker 1800 VMA_SPEC=latency
with 1 worker 1800 VMA_SPEC=latency VMA_RX_POLL=0 VMA_SELECT_POLL=0
with 1 worker 1800 VMA_SPEC=ultra-latency
with 1 blocked 62 VMA_SPEC=latency
with 1 blocked 62 VMA_SPEC=latency VMA_RX_POLL=0
with 1 epoll 62 VMA_SPEC=latency
with 1 epoll 62 VMA_SPEC=latency VMA_SELECT_POLL=0
with 0 worker 1800 VMA_SPEC=latency VMA_THREAD_MODE=1
kill $spawned
verdict
