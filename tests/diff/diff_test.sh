#!/bin/bash
# One suite of the differential tests, see diff.h.
#
#	diff_test.sh [-v] SUITE [BEHAVIOUR...]
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

verbose=()
if [[ $1 == -v ]]; then
	verbose=(-v)
	shift
fi
diff=$(find_program tests/diff/diff) || exit 1
netns_pair ""
for ns in c s; do
	# The number of answers from closed ports must not depend on earlier ones.
	in_ns $ns sh -c 'echo 0 > /proc/sys/net/ipv4/icmp_ratelimit'
	# The default of the library: VMA_TCP_CC_ALGO.
	in_ns $ns sh -c 'echo reno > /proc/sys/net/ipv4/tcp_congestion_control'
done
if [[ $1 == mcast ]]; then
	ip link add v1 netns c type veth peer name v1 netns s
	netns_up c v1 10.9.1.1
	netns_up s v1 10.9.1.2
	ip -n c addr add 10.9.0.3/24 dev v0
	await 5 netns_is_up c v1 && await 5 netns_is_up s v1 || die "the second link stays down"
fi
"$diff" run "${verbose[@]}" "$lib" tests/diff/intended.txt "$@"
