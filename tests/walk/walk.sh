#!/bin/bash
# Random walks through the calls of a program, with the library and without: walk.c.  Each difference is shown with
# the call before it.
#
#	walk.sh [-l] [FROM [COUNT [STEPS]]]
#
# -l: on one host, through shared memory.  COUNT seeds from FROM on, 100 from 1 if it does not say.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s	with the library, whose sockets are in c
#	ck v0 10.9.0.1 ---------- v0 10.9.0.2  sk	without
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
NETNS_LIMIT=7000
. tools/lib/netns.sh
netns_enter "$self" "$@"

local=0
[[ ${1:-} != -l ]] || {
	local=1
	shift
}
from=${1:-1} count=${2:-100} steps=${3:-60}
walk=$(find_program tests/walk/walk) || exit 1
[[ -n $lib ]] || die "no library to compare"
netns_pair ""
netns_pair k
for space in c s ck sk; do
	in_ns $space sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv4.icmp_msgs_per_sec=100000 net.ipv4.icmp_msgs_burst=10000
done
vma_env+=(VMA_LOCAL=$local)
# Each call looks at the kernel's descriptors, too.
vma_env+=(VMA_SELECT_SKIP_OS=1 VMA_SELECT_POLL_OS_RATIO=1 VMA_RX_UDP_POLL_OS_RATIO=1)

# walk_in NAMESPACE LIB [NAMESPACE NAMESPACE]
walk_in() {
	(netns_exec $1 "$2" 0-1023 "$walk" $from $count $steps "${@:3}" < /dev/null)
}

sides=(c s)
((!local)) || sides=()
walk_in ck "" "${sides[@]/%/k}" > $netns_tmp/kernel &
kernel=$!
walk_in c "$lib" "${sides[@]}" > $netns_tmp/ours || die "the walk with the library ended with $?"
wait $kernel || die "the walk of the kernel ended with $?"
# The first line of each walk that differs.
differ=$(awk '
	FNR == 1 { file++ }
	/^seed / { seed = $2; n = 0; before = "seed " seed; next }
	{ n++ }
	file == 1 { kernel[seed, n] = $0; next }
	!(seed in done) && kernel[seed, n] != $0 {
		print seed ": " before; print "  kernel " kernel[seed, n]; print "  ours   " $0
		done[seed] = 1
	}
	{ before = $0 }' $netns_tmp/kernel $netns_tmp/ours)
[[ -z $differ ]] || echo "$differ"
n=$(grep -c '^  ours ' <<< "$differ")
echo "$count walks of $steps calls, $n differ"
((n == 0))
