#!/bin/bash
# Explicit congestion notification between the library and the kernel, in both roles and directions:
# a link marks frames, the receiver echoes the marks, the sender reduces its window and says so, and
# nothing is lost or retransmitted. And senders that are not faster than their program wants.
#
#	c0 v0 10.9.0.1 --- w0  wire  w1 --- v0 10.9.0.2 s0
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
. tests/interop/lane.sh
netns_enter "$self" "$@"

bulk=$(find_program tests/interop/bulk) || exit 1
wire=$(find_program tests/interop/wire) || exit 1
bytes=3000000
rate=4000000 # bytes per second of paced rows

lane_up 0
for ns in c0 s0; do
	in_ns $ns sh -c 'echo reno > /proc/sys/net/ipv4/tcp_congestion_control' || die "no reno"
done

# ecn CLIENT SERVER: net.ipv4.tcp_ecn; 0 disabled, 1 requests, 2 accepts.
ecn() {
	in_ns c0 sh -c "echo $1 > /proc/sys/net/ipv4/tcp_ecn"
	in_ns s0 sh -c "echo $2 > /proc/sys/net/ipv4/tcp_ecn"
}

# transfer SIDES up
# down WIRE-OPTION...: sets $data to what the wire reports for the direction of the data, and $back
# for the other one.
transfer() {
	local sides=$1 direction=$2 wire_pid lib_c="" lib_s="" rc=0 log=$netns_tmp/log

	[[ $sides == client ]] || lib_s=$lib
	[[ $sides == server ]] || lib_c=$lib
	netns_spawn $log.wire w0 "" "$wire" w0 w1 "${@:3}" || return 1
	wire_pid=$spawned
	netns_spawn $log.server s0 "$lib_s" "$bulk" serve $netns_server 7000 || rc=1
	netns_run c0 "$lib_c" "$bulk" go $netns_server 7000 "$direction" $bytes 1 30 > $log.client || rc=1
	kill -TERM $spawned
	wait $spawned || rc=1
	kill -TERM $wire_pid
	wait $wire_pid
	data=$(grep "^w$([[ $direction == up ]] && echo 0 || echo 1):" $log.wire)
	back=$(grep "^w$([[ $direction == up ]] && echo 1 || echo 0):" $log.wire)
	((rc == 0)) || tail -n 3 $log.*
	return $rc
}

# number LINE WORD: the number before the word.
number() {
	[[ $1 =~ ([0-9]+)\ $2 ]] && echo "${BASH_REMATCH[1]}"
}

# The sender reacts once per window; echoes continue until the CWR arrives.
is_marked() {
	(($(number "$data" marked) > 5 && $(number "$back" echoes) > 5 && $(number "$data" answers) > 2)) &&
		(($(number "$data" lost) == 0 && $(number "$data" answers) <= $(number "$data" marked))) || show
}

is_unmarked() {
	(($(number "$data" marked) + $(number "$back" echoes) + $(number "$data" answers) == 0)) || show
}

# Except for timeouts on a busy machine.
is_sent_once() {
	(($(number "$data" bytes) < bytes + bytes / 50)) || show
}

show() {
	printf '     %s\n' "$data" "$back"
	return 1
}

for sides in server client both; do
	for direction in up down; do
		ecn 1 2
		check "$sides, $direction: marked segments arrive" transfer $sides $direction mark=2 delay=0.5
		check "$sides, $direction: marks are echoed, and CWR follows" is_marked
		check "$sides, $direction: no segment is retransmitted" is_sent_once
		ecn 1 0
		check "$sides, $direction: it arrives, too, if the server does not support ECN" transfer $sides $direction mark=2 delay=0.5
		check "$sides, $direction: no segment is marked" is_unmarked
	done
done

# At most a tenth above the rate.  On a busy machine it may be slower; that a sender is not slower
# by itself is exact in tests/script/mtu.pkt.
is_paced() {
	local msec want=$((bytes * 1000 / rate))

	msec=$((10#$(sed -nE 's/.* bad, ([0-9]+)\.([0-9]{3}) s,.*/\1\2/p' $netns_tmp/log.client)))
	echo "     $msec ms; at that rate it takes $want"
	((msec * 10 >= want * 9))
}

ecn 2 2
export PACE=$rate
for row in "client up" "server down" "both up" "both down"; do
	check "$row, paced: it arrives" transfer $row
	check "$row, paced: at no more than $rate bytes a second" is_paced
	check "$row, paced: no segment is retransmitted" is_sent_once
done
verdict
