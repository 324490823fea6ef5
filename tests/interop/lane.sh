# Sourced by the interop tests and the TCP bench: two hosts and a link between them.
#
#	c<lane> v0 10.9.0.1 --- w0 w<lane> w1 --- v0 10.9.0.2 s<lane>
#
# The program in w<lane> decides what happens to frames: tests/interop/wire.

# Frames leave as on a real link: one segment each, with a checksum.
plain_frames() {
	in_ns "$1" ethtool -K v0 tx off tso off gso off gro off > /dev/null 2>&1
}

lane_up() {
	local lane=$1 end ns

	for ns in c w s; do netns_new "$ns$lane"; done
	ip link add v0 netns "c$lane" type veth peer name w0 netns "w$lane" || die "no veth"
	ip link add v0 netns "s$lane" type veth peer name w1 netns "w$lane" || die "no veth"
	netns_up "c$lane" v0 $netns_client
	netns_up "s$lane" v0 $netns_server
	for end in 0 1; do ip -n "w$lane" link set "w$end" up promisc on; done
	for ns in c s; do
		await 5 netns_is_up "$ns$lane" v0 || die "the link stays down"
		plain_frames "$ns$lane" || die "ethtool fails"
		# Each row has its own network.
		in_ns "$ns$lane" sh -c 'echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save'
	done
}

