#!/bin/bash
# Dummy sends: the peer's kernel counts what was really sent, and its tcpdump sees nothing else. Where
# the kernel serves the socket, the call fails, and the kernel sends nothing.
#
#	c  v0 10.9.0.1, the program ---------- v0 10.9.0.2  s
#	                                       echo, by the kernel; tcpdump
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib
needs tcpdump

program=$(find_program tests/scenario/extra/dummy) || exit 1
probe=$(netns_find_probe) || exit 1
log=$netns_tmp/log
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"
netns_exec s "" 0-1023 tcpdump -i v0 -n -Q in -U --immediate-mode -w $netns_tmp/seen port 7000 2> $netns_tmp/tcpdump &
await 30 grep -q 'listening on' $netns_tmp/tcpdump || die "no tcpdump"

# payloads: how many frames with data the peer has seen.
payloads() {
	tcpdump -nr $netns_tmp/seen 2> /dev/null | awk '!/length 0/ { n++ } END { print n + 0 }'
}

# asks PROTO: the program runs; $came: datagrams that the peer's kernel received.
asks() {
	local before after rc

	read -r before < <(netns_counters s UdpInDatagrams)
	netns_run c "$lib" "$program" "$1" $netns_server 7000 500 > $log 2>&1
	rc=$?
	read -r after < <(netns_counters s UdpInDatagrams)
	came=$((after - before))
	return $rc
}

says() {
	grep -qx "$1" $log || { cat $log && false; }
}

# What is on the wire before a call is in the file after it: -U, and its answer came later.
seen=0
for proto in udp tcp; do
	check "$proto" asks $proto
	check "... each dummy send returns its length" says "good 2000"
	check "... none fails" says "error none"
	[[ $proto == tcp ]] || check "... the peer's kernel receives the two real datagrams" test $came = 2
	check "... the peer sees two frames with data" await 30 eval '(($(payloads) == seen + 2))'
	seen=$((seen + 2))
done
for proto in udp tcp; do
	VMA_OFFLOADED_SOCKETS=0 check "$proto, served by the kernel" asks $proto
	check "... each dummy send fails" says "good 0"
	check "... with EINVAL" says "error EINVAL"
	check "... the peer sees two frames with data" await 30 eval '(($(payloads) == seen + 2))'
	seen=$((seen + 2))
done
verdict
