#!/bin/bash
# The host's settings (net.ipv4.tcp_*) and what the route says (initcwnd, rto_min, quickack, hoplimit)
# hold for accelerated sockets as for those of the kernel.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	changed settings          the kernel: sees the packets
#
# What the kernel alone does is seen at the same time, in ck and sk: both mostly wait.
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

for pair in "" k; do
	netns_pair "$pair"
	# Frames for nobody arrive at s, which leaves them alone.
	mac=$(ip -n "s$pair" -br link show v0 | awk '{ print $3 }')
	in_ns "c$pair" ip neigh replace 10.9.0.9 lladdr "$mac" dev v0 nud permanent
done

# both COMMAND...: in each client's namespace.
both() {
	in_ns c "$@"
	in_ns ck "$@"
}
set_tcp() { both sysctl -qw "net.ipv4.tcp_$1=$2"; }

# route WORD...: of the link.
route() { both ip route replace 10.9.0.0/24 dev v0 proto kernel scope link src 10.9.0.1 "$@"; }

# asked PAIR LIB FILE [acks]: by a peer of its own, which counts.
asked() {
	local log=$netns_tmp/serve$1

	netns_spawn "$log" "s$1" "" python3 tests/scenario/tcp/host.py serve 7000 || die "no server: $(cat "$log")"
	netns_run "c$1" "$2" python3 tests/scenario/tcp/host.py ask $netns_server 7000 "${@:4}" > "$3"
	kill "$spawned"
	await 30 is_gone "$spawned" || die "the server stays"
}

# compare WHAT REGEX [acks]: the kernel's lines match, and the library's are the same.
compare() {
	local plain

	(trap - EXIT; asked k "" $netns_tmp/plain "${@:3}") &
	plain=$!
	asked "" "$lib" $netns_tmp/with "${@:3}"
	wait $plain || die "nothing of the kernel"
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
