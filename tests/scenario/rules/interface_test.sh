#!/bin/bash
# `interface deny`: a socket that is bound to 0.0.0.0 does not open the interface, and the
# kernel serves it there.
#
#	c  v0 10.9.0.1 ---------------------- v0 10.9.0.2  s
#	   j0 10.9.1.1 ---------------------- j0 10.9.1.2
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

probe=$(netns_find_probe) || exit 1
conf=$netns_tmp/libvma.conf
log=$netns_tmp/log
netns_pair ""
ip link add j0 netns c type veth peer name j0 netns s
netns_up c j0 10.9.1.1
netns_up s j0 10.9.1.2
await 30 netns_is_up c j0 && await 30 netns_is_up s j0 || die "the link stays down"
vma_env=(VMA_TRACELEVEL=details "VMA_CONFIG_FILE=$conf")
netns_spawn $netns_tmp/peer s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no peer"

serve() {
	netns_spawn $netns_tmp/serve c "$lib" "$probe" serve udp:7001:recv tcp:7001:recv || die "no server"
}

# sees INTERFACE: does the kernel of c see what its peer asks there? When it returns, the server knows that
# the connection has ended, as it answers datagrams behind the last ACK. If it were killed before that,
# the next server would probe the connection through the kernel (sock/tcp/tcp_left.h).
sees() {
	local to=10.9.0.1 before after

	[[ $1 == v0 ]] || to=10.9.1.1
	before=$(netns_counters c UdpInDatagrams TcpInSegs)
	netns_run s "" "$probe" ask tcp $to 7001 10 | grep -q 'answers$' || die "no answers by $1"
	await 30 netns_tcp_ended s || die "a connection does not end"
	netns_run s "" "$probe" ask udp $to 7001 10 | grep -q 'answers$' || die "no answers by $1"
	after=$(netns_counters c UdpInDatagrams TcpInSegs)
	[[ $before != "$after" ]] && echo "     datagrams and segments in the kernel: $before, then $after"
}
has_xdp() { netns_has_xdp c "$1"; }
not() { ! "$@"; }

: > $conf
serve
check "no rule: both are opened" eval 'has_xdp v0 && has_xdp j0'
check "... and the kernel sees nothing" not eval 'sees v0 || sees j0'
netns_kill $spawned

for rules in 'interface deny j*' 'interface allow v?\ninterface deny *'; do
	# The server before is gone from both: on a busy machine one of them is still its own.
	await 30 not eval 'has_xdp v0 || has_xdp j0' || die "XDP stays"
	printf '%b\n' "$rules" > $conf
	serve
	check "$rules: v0 is opened" has_xdp v0
	check "... j0 is not" not has_xdp j0
	check "... v0 is accelerated" not sees v0
	check "... j0 is the kernel's" sees j0
	check "... which is said" grep -q "VMA DETAILS: j0 is left to the kernel: $conf:[12] denies it" $netns_tmp/serve
	netns_kill $spawned
done

for protocol in udp tcp; do
	netns_run c "$lib" "$probe" ask $protocol 10.9.1.2 7000 10 > $log
	check "$protocol that goes out by j0 works" grep -q 'answers$' $log
	check "... and does not open it" not has_xdp j0
done
vma_env=(VMA_TRACELEVEL=debug "VMA_CONFIG_FILE=$conf")
netns_run c "$lib" "$probe" ask udp 10.9.1.2 7000 1 > $log
check "the verdict names the rule" grep -q "left to the kernel: $conf:[12] says deny" $log
check "... and it is no fallback" not grep -q 'not accelerated' $log
verdict
