#!/bin/bash
# Frames of one flow arrive by two RX queues in turn, while the program is stopped: it receives
# them in the order of their arrival, as from the kernel.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	raw frames, 2 TX queues   a UDP socket, 2 RX queues
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

program=tests/scenario/ring/flow_queues.py
frames=60
netns_pair "" numrxqueues 2 numtxqueues 2
mac=$(ip -n s -o link show v0 | sed -n 's/.*ether \([^ ]*\).*/\1/p')

# by_queue NUMBER: frames that the XDP program saw on the RX queue.
by_queue() {
	in_ns s ethtool -S v0 | sed -n "s/.*rx_queue_$1_xdp_packets: //p"
}

receive() {
	local out=$netns_tmp/out rc

	netns_spawn $out s "$lib" python3 $program serve $netns_server 7000 $frames || return 1
	netns_run c "" python3 $program hello $netns_server 7000
	await 40 grep -q first $out || return 1
	kernel=$(netns_counters s UdpInDatagrams)
	queues=("$(by_queue 0)" "$(by_queue 1)")
	kill -STOP $spawned
	netns_run c "" python3 $program send v0 "$mac" $netns_server 7000 $frames s
	rc=$?
	kill -CONT $spawned
	wait $spawned && ((rc == 0))
}

by_two_queues() {
	local half=$((frames / 2))

	(($(by_queue 0) - queues[0] >= half && $(by_queue 1) - queues[1] >= half))
}

in_order() {
	[[ $(tail -n 1 $netns_tmp/out) == "$(seq -s ' ' 0 $((frames - 1)))" ]] || {
		tail -n 1 $netns_tmp/out
		return 1
	}
}

bypassed() {
	[[ $(netns_counters s UdpInDatagrams) == "$kernel" ]]
}

check "$frames datagrams arrive" receive
[[ -z $lib ]] || check "they came by both queues" by_two_queues
check "they are received in order" in_order
[[ -z $lib ]] || check "the kernel has seen none of them" bypassed
verdict
