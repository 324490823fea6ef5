#!/bin/bash
# Datagrams that are sent many at a time (UDP_SEGMENT) leave in large segments that the kernel cuts,
# and arrive one by one, in order with those that are sent alone, where a device cuts, where software
# does, and where the kernel refuses them.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	sends                     receives; tcpdump sees what the device sent
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
needs ethtool tc tcpdump
netns_enter "$self" "$@"
. tests/lib/large_frames.sh

segments=tests/scenario/ring/segments.py
log=$netns_tmp/serve

# receiver LIB: one that runs; its lines are in $log
receiver() {
	netns_spawn $log s "$1" python3 $segments serve 7100 || die "no receiver: $(cat $log)"
	server=$spawned
}

flows() {
	grep -c '^[0-9]' $log
}

arrived() {
	(($(flows) > $1))
}

# sent_as LIB FIELDS ROUNDS: these fields of what arrives are those of what LIB sends
sent_as() {
	local sent before got

	before=$(flows)
	sent=$(netns_run c "$1" python3 $segments send $netns_server 7100 "$3")
	await 30 arrived "$before"
	got=$(tail -n 1 $log)
	[[ $sent == [0-9]*" "[0-9]*" "[0-9]*" "* ]] && (($(flows) > before)) &&
		[[ $(cut -d ' ' -f "$2" <<< "$got") == "$(cut -d ' ' -f "$2" <<< "$sent")" ]] && return
	echo "     $sent, not $got"
	return 1
}

# intact ROUNDS: the datagrams arrive as they were sent
intact() {
	sent_as "$lib" 1-4 "$1"
}

# row WHAT LARGE-FRAMES
row() {
	check "$1: datagrams are intact and in order" captured 'udp dst port 7100' 'length [78]$' intact 100
	check "$1: large frames at the peer's device" large_frames "$2"
}

# Datagrams that the receiving kernel took; others that it dropped.
received() {
	netns_counters s UdpInDatagrams
}
dropped() {
	netns_counters s UdpInErrors UdpInCsumErrors UdpRcvbufErrors
}

netns_pair ""
receiver ""
by_kernel=$(netns_counters c UdpOutDatagrams)
before=$(received)
row "a device that cuts" "> 50"
# With those of 100 rounds, and of the end.
check "the kernel counts each datagram" test $(($(received) - before - 101)) = "$(tail -n 1 $log | cut -d ' ' -f 1)"
in_ns c ethtool -K v0 gso off tx-udp-segmentation off > /dev/null
row "software that cuts" "== 0"
in_ns c ethtool -K v0 gso on tx-udp-segmentation on > /dev/null
tc -n c qdisc add dev v0 root pfifo limit 1000
row "around a queueing discipline" "> 50"
[[ -z $lib ]] || in_ns c ethtool -K v0 tx-udp-segmentation off > /dev/null
[[ -z $lib ]] || row "a discipline, and a device that does not cut" "== 0"
in_ns c ethtool -K v0 tx-udp-segmentation on > /dev/null
tc -n c qdisc del dev v0 root
check "the receiving kernel dropped none" test "$(dropped)" = "0 0 0"
[[ -z $lib ]] || check "the sending kernel sent none" test "$by_kernel" = "$(netns_counters c UdpOutDatagrams)"

netns_kill $server
receiver "$lib"
check "to the library: datagrams are intact and in order" intact 100
netns_kill $server

# Generic XDP gets them joined: the other end has more TX queues.
for side in c s; do
	ip netns delete $side
done
netns_new c
netns_new s
ip link add name v0 netns c numtxqueues 2 type veth peer name v0 netns s numrxqueues 1
netns_up c v0 $netns_client
netns_up s v0 $netns_server
receiver "$lib"
check "the kernel to generic XDP: datagrams are intact" sent_as "" 1-3 100
verdict
