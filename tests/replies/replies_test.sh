#!/bin/bash
# A program with the library answers, and receives, the same as the kernel would, for any frame:
# each input goes to a program with the library and to one without.
#
#	c  v0 (no address) ---------- v0 10.9.0.2  s     target.py
#	   raw frames                 w0 10.99.0.2 ---- w0 (in c, silent)
#
# intended.txt lists the intended differences, one value each.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

python=/usr/bin/python3
# The program sees at once what the kernel has received for it.
vma_env+=(VMA_RX_UDP_POLL_OS_RATIO=1 VMA_SELECT_POLL_OS_RATIO=1)

# settings NAMESPACE RP_FILTER: the number of earlier answers limits no answer.
settings() {
	in_ns "$1" sh -c "
		for i in all default v0 w0; do echo $2 > /proc/sys/net/ipv4/conf/\$i/rp_filter; done
		cd /proc/sys/net/ipv4
		echo 0 > icmp_ratemask
		echo 0 > icmp_echo_ignore_broadcasts
		echo 100000 > tcp_challenge_ack_limit
		echo 0 > tcp_invalid_ratelimit"
}

# hosts TAG RP_FILTER
hosts() {
	local c=c$1 s=s$1 link

	netns_new "$c" && netns_new "$s"
	ip link add v0 netns "$c" type veth peer name v0 netns "$s" || die "no veth"
	ip link add w0 netns "$c" type veth peer name w0 netns "$s" || die "no veth"
	ip -n "$c" link set v0 up && ip -n "$c" link set w0 up
	netns_up "$s" v0 $netns_server
	netns_up "$s" w0 10.99.0.2
	await 30 netns_is_up "$s" v0 && await 30 netns_is_up "$s" w0 || die "the link stays down"
	ip -n "$s" neigh add 10.9.0.66 lladdr 02:00:00:00:00:66 dev v0
	ip -n "$s" neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev v0
	ip -n "$s" route add default via 10.9.0.1
	ip -n "$s" route add 10.98.0.0/16 via 10.99.0.7
	ip -n "$s" neigh add 10.99.0.7 lladdr 02:00:00:00:00:07 dev w0
	ip -n "$s" route add blackhole 10.97.0.0/16
	ip -n "$s" route add unreachable 172.31.0.0/16
	for link in v0 w0; do
		in_ns "$s" ethtool -K $link tx off tso off gso off gro off > /dev/null 2>&1
	done
	settings "$s" "$2"
}

mac_of() {
	ip -n "$1" -o link show "$2" | sed -E 's/.*link.ether ([0-9a-f:]+).*/\1/'
}

# transcript FILE TAG LIB RP_FILTER
transcript() {
	local mac

	hosts "$2" "$4"
	mac=$(mac_of "s$2" v0)
	netns_spawn "$1.target" "s$2" "$3" $python tests/replies/target.py $netns_server ||
		die "the target does not start: $(< "$1.target")"
	netns_run "c$2" "" $python tests/replies/replies.py v0 "$mac" "$4" w0 "$(mac_of "s$2" w0)" > "$1"
	[[ $? == 0 ]] || {
		tail -n 5 "$1" "$1.target"
		return 1
	}
}

for rp_filter in 0 1 2; do
	check "rp_filter $rp_filter: the kernel alone" \
		transcript $netns_tmp/kernel.$rp_filter k$rp_filter "" $rp_filter
	check "rp_filter $rp_filter: with the library" \
		transcript $netns_tmp/library.$rp_filter l$rp_filter "$lib" $rp_filter
	check "... it is accelerated" [ ! -s <(grep 'VMA' $netns_tmp/library.$rp_filter.target) ]
done
cat $netns_tmp/kernel.[012] > $netns_tmp/kernel
cat $netns_tmp/library.[012] > $netns_tmp/library
check "there are 200 inputs at least" [ "$(grep -c '^#' $netns_tmp/kernel)" -ge 200 ]
check "what is answered and received is the same" \
	$python tests/replies/compare.py $netns_tmp/kernel $netns_tmp/library tests/replies/intended.txt
verdict
