#!/bin/bash
# A process that has the interface creates a child that uses none of its sockets, and is killed. The
# child has nothing of the interface: the next process is accelerated.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	asks, by the kernel       the process that is killed, its child, the next process
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
orphan=$(find_program "${ORPHAN:-tests/scenario/processes/orphan}") || exit 1
netns_pair ""

no_xdp() {
	! netns_has_xdp s v0
}

port=7000
for how in fork _Fork clone vfork spawn system; do
	port=$((port + 1))
	log=$netns_tmp/$how
	netns_spawn "$log" s "$lib" "$orphan" hold $netns_server $port $how || { cat "$log"; die "no parent"; }
	if [[ -n $lib ]]; then
		check "$how: the parent has the interface" netns_has_xdp s v0
		check "$how: the child has nothing of the interface" grep -qx clean "$log" || cat "$log"
	fi
	netns_kill $spawned
	check "$how: no XDP program stays" await 30 no_xdp
	before=$(netns_counters s UdpInDatagrams)
	check "$how: the next process starts" netns_spawn "$log.next" s "$lib" "$probe" serve udp:$((port + 100)):recv || cat "$log.next"
	check "... and answers" netns_run c "" "$probe" ask udp $netns_server $((port + 100)) 20
	[[ -z $lib ]] || check "... bypasses the kernel" test "$(netns_counters s UdpInDatagrams)" == "$before" || cat "$log.next"
	netns_kill $spawned
	check "... and releases the interface" await 30 no_xdp
done
verdict
