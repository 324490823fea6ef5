#!/bin/bash
# The host's settings (net.ipv4.tcp_*) and what the route says (initcwnd, rto_min, quickack, hoplimit)
# hold for accelerated sockets as for those of the kernel.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	changed settings          the kernel: sees the packets
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

netns_pair ""
# Frames for nobody arrive at s, which leaves them alone.
mac=$(ip -n s -br link show v0 | awk '{ print $3 }')
in_ns c ip neigh replace 10.9.0.9 lladdr "$mac" dev v0 nud permanent

set_tcp() { in_ns c sysctl -qw "net.ipv4.tcp_$1=$2"; }

# route WORD...: of the link.
route() { in_ns c ip route replace 10.9.0.0/24 dev v0 proto kernel scope link src 10.9.0.1 "$@"; }

# asked LIB FILE [acks]: by a peer of its own, which counts.
asked() {
	netns_spawn $netns_tmp/serve s "" python3 tests/scenario/tcp/host.py serve 7000 ||
		die "no server: $(cat $netns_tmp/serve)"
	netns_run c "$1" python3 tests/scenario/tcp/host.py ask $netns_server 7000 "${@:3}" > "$2"
	kill "$spawned"
	await 30 is_gone "$spawned" || die "the server stays"
}

# compare WHAT REGEX [acks]: the kernel's lines match, and the library's are the same.
compare() {
	asked "" $netns_tmp/plain "${@:3}"
	asked "$lib" $netns_tmp/with "${@:3}"
	cat $netns_tmp/plain
	check "$1: the kernel does what we think" grep -qE "$2" $netns_tmp/plain
	check "$1: the same with the library" diff $netns_tmp/plain $netns_tmp/with
}

set_tcp no_metrics_save 1 # each begins as the first one
set_tcp syn_retries 1
[[ ! -e /proc/sys/net/ipv4/tcp_syn_linear_timeouts ]] || set_tcp syn_linear_timeouts 0
compare "defaults" '^a pause shrinks the window True$'

route initcwnd 23 rto_min 50ms quickack 1 hoplimit 33
compare "a route" '^all acknowledged alone True$' acks

route
set_tcp keepalive_time 300
set_tcp keepalive_intvl 20
set_tcp keepalive_probes 4
set_tcp slow_start_after_idle 0
set_tcp sack 0
set_tcp window_scaling 0
[[ ! -e /proc/sys/net/ipv4/tcp_syn_linear_timeouts ]] || set_tcp syn_linear_timeouts 1
compare "settings" '^a pause shrinks the window False$'
verdict
