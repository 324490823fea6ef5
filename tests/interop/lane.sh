# Sourced by the interop tests and the TCP bench: two hosts and a link between them.
#
#	c<lane> v0 10.9.0.1 --- w0 w<lane> w1 --- v0 10.9.0.2 s<lane>
#
# The program in w<lane> decides what happens to frames: tests/interop/wire.

# Frames leave as on a real link: one segment each, with a checksum.
plain_frames() {
	in_ns "$1" ethtool -K v0 tx off tso off gso off gro off > /dev/null 2>&1
}

# lane_links LANE: v0 of both, and w0 and w1 between them; with NETNS_CARD=1, v0 is of an emulated
# ConnectX card (tests/mlx5).
lane_links() {
	local lane=$1 end ns=(c s)

	[[ ! ${NETNS_CARD:-} ]] || . tests/mlx5/card.sh
	for end in 0 1; do
		if [[ ${NETNS_CARD:-} ]]; then
			ip link add "x$end" netns "w$lane" type veth peer name "w$end" netns "w$lane" || die "no veth"
			card_end "${ns[end]}$lane" "w$lane" "x$end"
		else
			ip link add v0 netns "${ns[end]}$lane" type veth peer name "w$end" netns "w$lane" || die "no veth"
		fi
	done
}

lane_up() {
	local lane=$1 end ns

	for ns in c w s; do netns_new "$ns$lane"; done
	lane_links "$lane"
	netns_up "c$lane" v0 $netns_client
	netns_up "s$lane" v0 $netns_server
	for end in 0 1; do ip -n "w$lane" link set "w$end" up promisc on; done
	for ns in c s; do
		await 30 netns_is_up "$ns$lane" v0 || die "the link stays down"
		[[ ${NETNS_CARD:-} ]] || plain_frames "$ns$lane" || die "ethtool fails"
		# Each row has its own network.
		in_ns "$ns$lane" sh -c 'echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save'
	done
}

