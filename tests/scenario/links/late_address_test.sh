#!/bin/bash
# Sockets bound to 0.0.0.0 serve links and addresses that are added later, and leave those that are
# removed.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2, later; and 10.9.0.3, later  s
#	   v1 10.9.1.1 ---------- v1 10.9.1.2, the link itself later
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
netns_new c
netns_new s
ip link add v0 netns c type veth peer name v0 netns s || die "no veth"
netns_up c v0 10.9.0.1

answers() {
	netns_run c "" "$probe" ask "$1" "$2" 7000 10 > $netns_tmp/ask
	grep -q answers $netns_tmp/ask
}

# The library learns about changes from the kernel's events: the kernel may get the first packets.
bypasses() {
	local before

	before=$(netns_counters s UdpInDatagrams TcpInSegs)
	answers "$@" && [[ $before == "$(netns_counters s UdpInDatagrams TcpInSegs)" ]]
}

# serves WHAT ADDRESS [PROTOCOL...]
serves() {
	for protocol in ${3:-udp tcp}; do
		check "$1: $protocol" await 30 answers $protocol "$2"
		[[ -z $lib ]] || check "... bypasses the kernel" await 30 bypasses $protocol "$2"
	done
}

check "a server without any address" netns_spawn $netns_tmp/serve s "$lib" "$probe" serve udp:7000:recv tcp:7000:epoll
ip -n s link set v0 up
ip -n s addr add 10.9.0.2/24 dev v0
await 30 netns_is_up s v0 || die "the link stays down"
serves "an address that came later" 10.9.0.2
ip -n s addr add 10.9.0.3/24 dev v0
# The answer to a datagram would have the first address as its source.
serves "a second address" 10.9.0.3 tcp
ip link add v1 netns c type veth peer name v1 netns s
netns_up c v1 10.9.1.1
netns_up s v1 10.9.1.2
await 30 netns_is_up s v1 || die "the link stays down"
serves "a link that came later" 10.9.1.2
ip -n s addr del 10.9.0.3/24 dev v0
gone() {
	! answers tcp 10.9.0.3
}
check "a removed address is not served" await 30 gone
serves "the first address still" 10.9.0.2
ip -n s link del v1
serves "... and without the second link" 10.9.0.2
check "the server lives" kill -0 $spawned
verdict
