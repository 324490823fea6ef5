#!/bin/bash
# kill -9 of an accelerated server at any moment returns the interface to the kernel: no XDP program
# stays, and a server of the kernel is reached at once.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	floods, by the kernel     the server that is killed
#
#	kill_test.sh [ROUNDS]
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
rounds=${1:-20}
netns_pair ""
netns_spawn $netns_tmp/warm s "" "$probe" serve udp:7000:recv || die "no server"
netns_kill $spawned

reached() {
	netns_run c "" "$probe" ask "$1" $netns_server 7000 > $netns_tmp/ask
	grep answers $netns_tmp/ask > /dev/null && return
	cat $netns_tmp/ask
	return 1
}

no_xdp() {
	! netns_has_xdp s v0
}

taken=0
for ((round = 1; round <= rounds; round++)); do
	# Half of them die at any moment of the start, half once they have the interface.
	msec=$((RANDOM % 400))
	from="its start"
	((round % 2)) || from="it had the interface"
	netns_exec c "" 0-1023 "$probe" flood $netns_server 7000 > /dev/null 2>&1 < /dev/null &
	flood=$!
	netns_exec s "$lib" 0-1023 "$probe" serve udp:7000:poll tcp:7000:recv > $netns_tmp/killed 2>&1 < /dev/null &
	victim=$!
	((round % 2)) || [[ -z $lib ]] || await 30 netns_has_xdp s v0 || die "it never had the interface"
	sleep "$(printf '0.%03d' $msec)" # the random moment itself
	! netns_has_xdp s v0 || taken=$((taken + 1))
	netns_kill $victim
	check "round $round, killed $msec ms after $from: no XDP program is left" await 30 no_xdp || ip -n s link show v0
	netns_kill $flood
	check "... the kernel takes over" netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv
	check "... reached by udp" reached udp
	check "... reached by tcp" reached tcp
	netns_kill $spawned
done
[[ -z $lib ]] || check "some were killed while they had the interface ($taken of $rounds)" test $taken -gt $((rounds / 4))
verdict
