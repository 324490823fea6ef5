#!/bin/bash
# Two links have the same link-local addresses.  One loses its address and gets it back: what uses the
# other link does not notice, and connections of the first one go on.
#
#	c  v0 fe80::1 ---------- v0 fe80::2  s
#	   v1 fe80::1 ---------- v1 fe80::2
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

program=tests/scenario/links/link_local.py
netns_pair ""
ip link add v1 netns c type veth peer name v1 netns s || die "no veth"
netns_up c v1 10.9.1.1
netns_up s v1 10.9.1.2
await 30 netns_is_up c v1 && await 30 netns_is_up s v1 || die "the link stays down"
netns_link_local "" v0 v1

answers() {
	netns_run c "" python3 $program ask "$1" "$2" > $netns_tmp/ask
	grep -q answers $netns_tmp/ask
}

counters() {
	netns_counters s TcpInSegs
	in_ns s grep -w Udp6InDatagrams /proc/net/snmp6
}

# The library learns about changes from the kernel's events: the kernel may get the first packets.
bypasses() {
	local before

	before=$(counters)
	answers "$@" && [[ $before == "$(counters)" ]]
}

# serves WHAT LINK
serves() {
	for protocol in udp tcp; do
		check "$1: $protocol" await 30 answers $protocol "$2"
		[[ -z $lib ]] || check "... bypasses the kernel" await 30 bypasses $protocol "$2"
	done
}

# Each does not answer for a second.
silent() {
	! answers tcp v0 && ! answers udp v0
}

# said N: the holder has said it that often
said() {
	(($(grep -c "$1" $netns_tmp/hold) == $2))
}

check "a server of all addresses" netns_spawn $netns_tmp/serve s "$lib" python3 $program serve
server=$spawned
serves "the first link" v0
serves "the second link, with the same address" v1
check "a connection by the first link" netns_spawn $netns_tmp/hold c "$lib" python3 $program hold v0 $netns_tmp
touch $netns_tmp/go
check "... is answered" await 30 said answered 1
ip -n s addr del fe80::2/64 dev v0
check "a removed address is not served" await 30 silent
serves "the second link still" v1
touch $netns_tmp/go
check "the connection sends" await 30 said sent 2
ip -n s addr add fe80::2/64 dev v0 nodad
check "it goes on when the address is back" await 30 said answered 2
serves "the first link again" v0
ip -n c addr del fe80::1/64 dev v0
serves "the second link, while the client's address is gone" v1
touch $netns_tmp/go
ip -n c addr add fe80::1/64 dev v0 nodad
check "the client's connection goes on, too" await 30 said answered 3
check "the server lives" kill -0 $server
verdict
