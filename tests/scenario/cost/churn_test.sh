#!/bin/bash
# Sockets that are opened and closed: 60,000 without growth (churn_long: a million), many at the
# same time, and threads that close sockets while others use them.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	does that                 echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
(($# == 0)) || NETNS_LIMIT=3000
. tools/lib/netns.sh
netns_enter "$self" "$@"

cycles=${1:-60000}
many=${2:-15000}

probe=$(netns_find_probe) || exit 1
program=$(find_program tests/scenario/cost/churn) || exit 1
ulimit -n $((many + 2000)) 2> /dev/null
room=$(($(ulimit -Hn) - 2000))
((many <= room)) || many=$room # as many as this machine allows
netns_pair ""

# churn WHAT N
churn() {
	(netns_exec c "$lib" 0-1023 timeout -s KILL ${NETNS_LIMIT:-100} "$program" "$1" $netns_server 7000 "$2" 2>&1 < /dev/null)
}

netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"
check "$cycles sockets are opened and closed" churn cycles $cycles
check "$many sockets at once" churn many $many
for mode in 1 3; do
	vma_env=(VMA_TRACELEVEL=warn VMA_THREAD_MODE=$mode)
	check "threads close what others use, mode $mode" churn closers 3
done
verdict
