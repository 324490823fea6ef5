#!/bin/bash
# Bulk leaves in large segments that the kernel cuts, in order and intact: to the kernel
# and to the library, under a queueing discipline, with software that cuts, with losses, while the
# MTU changes, and after a sender was killed.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	sends                     receives; tcpdump sees what the device sent
#
#	cl v0 10.9.0.1 --- bridge --- v0 10.9.0.2  sl
#	sends              goes down  receives
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
needs ethtool tc tcpdump
netns_enter "$self" "$@"
. tests/lib/large_frames.sh

bulk=tests/scenario/tcp/bulk.py
log=$netns_tmp/serve
from=c to=s

# receiver LIB: one that runs; its lines are in $log
receiver() {
	netns_spawn $log $to "$1" python3 $bulk serve 7000 || die "no receiver: $(cat $log)"
	server=$spawned
}

# intact BYTES: they arrive as they were sent
intact() {
	local sent lines

	lines=$(streams)
	sent=$(netns_run $from "$lib" python3 $bulk send $netns_server 7000 "$1")
	[[ $sent == "$1 "* ]] && await 30 arrived "$lines" &&
		[[ $(tail -n 1 $log) == "$sent" ]] && return
	echo "     $sent, not $(tail -n 1 $log)"
	return 1
}

streams() {
	grep -c '^[0-9]' $log
}

arrived() {
	(($(streams) > $1))
}

# begun N: a stream after N others
begun() {
	(($(grep -c begun $log) > $1))
}

# Segments that the receiving TCP found beyond a gap.
overtakers() {
	in_ns s nstat -asz TcpExtTCPOFOQueue | awk '/OFO/ { print $2 }'
}

# row WHAT LARGE-FRAMES
row() {
	check "$1: 20 MB to the kernel are intact" captured 'tcp dst port 7000' 'Flags \[F' intact 20000000
	check "$1: large frames at the peer's device" large_frames "$2"
	[[ -z $lib ]] || check "$1: all arrives in order" test "$(overtakers)" = 0
}

netns_pair ""
receiver ""
before=$(netns_counters c TcpActiveOpens)
row "a device that cuts" "> 50"
in_ns c ethtool -K v0 tso off gso off > /dev/null
row "software that cuts" "== 0"
in_ns c ethtool -K v0 tso on gso on > /dev/null
tc -n c qdisc add dev v0 root pfifo limit 1000
row "around a queueing discipline" "> 50"
[[ -z $lib ]] || in_ns c ethtool -K v0 tso off > /dev/null
[[ -z $lib ]] || row "a discipline, and a device that does not cut" "== 0"
in_ns c ethtool -K v0 tso on > /dev/null
tc -n c qdisc del dev v0 root
for size in 1 5840 5841 65536 1000000; do
	check "$size bytes are intact" intact $size
done

change_mtu() {
	local mtu

	for mtu in 1000 1500 700 1500; do
		sleep_until=$((SECONDS + 1))
		await 2 eval '((SECONDS >= sleep_until))'
		ip -n c link set v0 mtu $mtu
	done
}
change_mtu &
changer=$!
check "the MTU changes meanwhile" intact 200000000
wait $changer
ip -n c link set v0 mtu 1500

netns_exec c "$lib" 0-1023 python3 $bulk send $netns_server 7000 4000000000 > $netns_tmp/killed 2>&1 &
sender=$!
await 30 eval "in_ns s ss -Htn state established 'sport = :7000' | grep -q ."
netns_kill $sender
check "after a sender was killed" eval "netns_kill $server; receiver ''; intact 1000000"
[[ -z $lib ]] || check "the kernel's TCP sent nothing of it" test "$before" = "$(netns_counters c TcpActiveOpens)"

netns_kill $server
receiver "$lib"
check "to the library: 20 MB are intact" intact 20000000
netns_kill $server

# Losses: the link between them goes down for a moment, several times.
for name in cl m sl; do
	netns_new $name
done
ip link add name v0 netns cl type veth peer name a netns m
ip link add name v0 netns sl type veth peer name b netns m
ip -n m link add name br type bridge
for port in a b br; do
	ip -n m link set dev $port up
	[[ $port == br ]] || ip -n m link set dev $port master br
done
netns_up cl v0 $netns_client
netns_up sl v0 $netns_server
await 30 in_ns cl ping -c 1 -W 1 $netns_server || die "the bridge does not forward"
from=cl to=sl

# Once it has begun, and each second until the stream has arrived: what is on its way is lost.
interrupt() {
	local lines

	lines=$(streams)
	await 30 begun "$lines"
	until arrived "$lines"; do
		ip -n m link set dev b down
		ip -n m link set dev b up
		echo interrupted >> $netns_tmp/interrupted
		await 1 arrived "$lines"
	done
}

receiver ""
interrupt &
interrupter=$!
check "with losses, to the kernel: 200 MB are intact" intact 200000000
wait $interrupter
netns_kill $server
receiver "$lib"
interrupt &
interrupter=$!
check "with losses, to the library: 100 MB are intact" intact 100000000
wait $interrupter
check "there were losses in both" eval "(($(grep -c . $netns_tmp/interrupted) >= 2))"
verdict
