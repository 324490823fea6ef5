#!/bin/bash
# The metrics of a route that hold from the start of a connection (mtu, advmss, window, initrwnd, congctl,
# features ecn), for connections in both directions, over IPv4 and IPv6.
#
#	c  v0 10.9.0.1, fd00:9::1 ---------- v0 10.9.0.2, fd00:9::2  s
#	routes with metrics                  the kernel: sees the packets
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

netns_pair ""
netns_pair_ip6 ""
set_tcp() { in_ns c sysctl -qw "net.ipv4.tcp_$1=$2"; }
set_tcp no_metrics_save 1
set_tcp congestion_control reno
set_tcp rmem '4096 131072 6291456'

# route WORD...: both routes of the link.
route() {
	in_ns c ip route replace 10.9.0.0/24 dev v0 proto kernel scope link src 10.9.0.1 "$@" &&
		in_ns c ip -6 route replace fd00:9::/64 dev v0 proto kernel metric 256 "$@" ||
		die "no route $*"
}

# asked LIB FILE: by a peer of its own.
asked() {
	netns_spawn $netns_tmp/serve s "" python3 tests/scenario/tcp/route.py serve 7000 ||
		die "no server: $(cat $netns_tmp/serve)"
	netns_run c "$1" python3 tests/scenario/tcp/route.py ask $netns_server fd00:9::2 7000 > "$2"
	kill "$spawned"
	await 30 is_gone "$spawned" || die "the server stays"
}

# compare WHAT REGEX: the kernel's lines match, and the library's are the same.
compare() {
	asked "" $netns_tmp/plain
	asked "$lib" $netns_tmp/with
	cat $netns_tmp/plain
	check "$1: the kernel does what we think" grep -qE "$2" $netns_tmp/plain
	check "$1: the same with the library" diff $netns_tmp/plain $netns_tmp/with
}

# with METRICS REGEX: as compare, on routes with these.
with() {
	# shellcheck disable=SC2086 # words
	route $1
	compare "$1" "$2"
}

plain='ecn False segments 40 40'
with "" "INET accept None mss 1460 wscale 7 $plain$"
with "mtu 1300" "INET accept None mss 1260 wscale 7 $plain$"
with "advmss 1000" "INET accept None mss 1000 wscale 7 $plain$"
with "advmss 1000" 'INET accept None .* sends 1448 ' # this is no limit of ours
with "mtu 1300 advmss 1400" 'INET6 connect None mss 1400 '
with "mtu 1300 advmss 1400" 'INET6 connect None .* sends 1228 '
with "window 21000" 'INET6 connect None mss 1440 wscale 0 ecn False segments 14 14$'
with "window 21000" 'INET accept None .* clamp 21000$'
with "window 100000" 'INET connect None mss 1460 wscale 1 ecn False'
with "initrwnd 10" 'INET accept None mss 1460 wscale 7 ecn False segments 10 10$'
with "initrwnd 2 window 21000 advmss 1000" 'INET connect None mss 1000 wscale 0 ecn False segments 2 2$'
with "congctl cubic" 'INET6 accept None cubic cubic ENOENT reno '
with "congctl reno" "INET connect b'cubic' reno cubic ENOENT reno "
with "congctl lock reno" "INET accept b'cubic' reno EPERM EPERM EPERM "
with "features ecn" 'INET connect None mss 1460 wscale 7 ecn True '
set_tcp ecn 0
with "features ecn" 'INET6 connect None mss 1440 wscale 7 ecn True '
set_tcp syncookies 2 # always
with "advmss 1000" "INET accept None mss 1000 wscale 7 $plain$"
with "window 20500" "INET accept None mss 1460 wscale 0 ecn False segments 14 14$"
with "initrwnd 3 mtu 1300" 'INET6 accept None mss 1240 wscale 7 ecn False segments 3 '

# Only the kernel has it: connect() leaves the connection to the kernel.
route congctl bbr
asked "" $netns_tmp/plain
vma_env=(VMA_TRACELEVEL=debug)
asked "$lib" $netns_tmp/with
check "congctl bbr: the kernel does what we think" grep -q "INET connect b'cubic' bbr cubic ENOENT reno" $netns_tmp/plain
check "congctl bbr: the kernel serves it" diff <(grep ' connect ' $netns_tmp/plain) <(grep ' connect ' $netns_tmp/with)
[[ -z $lib ]] ||
	check "congctl bbr: ... which is counted" grep -q 'VMA DEBUG: 4 sockets: the route has a metric' $netns_tmp/with
check "congctl bbr: what is accepted keeps its own" grep -q "INET accept b'cubic' cubic cubic ENOENT reno" $netns_tmp/with
verdict
