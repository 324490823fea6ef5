#!/bin/bash
# The emulated card, under the stock libibverbs and libmlx5: frames come and go, the kernel has the
# rest, and what the programmer's manual forbids is seen.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
export LIB='' # stock libraries alone
netns_enter "$self" "$@"
. tests/mlx5/card.sh

needs ethtool ping tcpdump
probe=$(netns_find_probe) || exit 1
verbs=$(find_program tests/mlx5/verbs) || exit 1
forks=$(find_program tests/mlx5/forks) || exit 1
card_start

# queue LOG KIND COUNT: starts a program with a queue pair for port 7000; $spawned is its process.
queue() {
	: > "$1"
	(exec nsenter --net=/run/netns/s -- "${card_env[@]}" "$verbs" "$2" $netns_server 7000 "$3") > "$1" 2>&1 < /dev/null &
	spawned=$!
	await 30 is_ready "$1" $spawned && ! is_gone $spawned
}

# ends PID: by itself, and well.
ends() {
	await 30 is_gone "$1" || return 1
	wait "$1"
}

answered() {
	netns_run c "" "$probe" ask udp $netns_server 7000 "$1" > $netns_tmp/ask
	grep -q "^$1 .*answers$\|$1 answers$" $netns_tmp/ask || {
		cat $netns_tmp/ask
		return 1
	}
}

log=$netns_tmp/log
saw=$(netns_counters s UdpInDatagrams UdpNoPorts)
check "a program opens a queue pair" queue $log echo 200
check "its 200 datagrams are answered, with checksums that the card computes" answered 200
check "it ends as it should" ends $spawned || cat $log
check "the kernel saw none of them" test "$saw" = "$(netns_counters s UdpInDatagrams UdpNoPorts)"
check "nothing was violated" test "$(card_counter violations)" = 0
check "what no rule matches is the kernel's" in_ns c ping -q -c 3 -i 0.2 -W 2 $netns_server
sent_to=$(card_counter to_kernel)
answered 1 > /dev/null
check "without the program so is the port" test "$(card_counter to_kernel)" -gt "$sent_to"

check "a program without CAP_NET_RAW" test "$(
	in_ns s setpriv --bounding-set=-net_raw "${card_env[@]}" "$verbs" echo $netns_server 7000 1 2>&1
)" = "verbs: create_qp: Operation not permitted"

check "children use it that are forked while another thread gives it commands" in_ns s "${card_env[@]}" "$forks"

queue $log echo 1000 || cat $log
netns_kill $spawned
sent_to=$(card_counter to_kernel)
answered 1 > /dev/null
check "a program that is killed leaves no rule behind" test "$(card_counter to_kernel)" -gt "$sent_to"

# asks COUNT: in the background, because there may be no answer to the last question. The end of the program, and
# what the card has seen, are awaited instead.
asks() {
	netns_run c "" "$probe" ask udp $netns_server 7000 "$1" > /dev/null &
}

# segmented: the parts of 4,000 bytes at 1,000, as the client's interface gets them.
segmented() {
	local capture=$netns_tmp/parts

	netns_exec c "" 0-1023 timeout 90 tcpdump -n -S -vv -i v0 -c 4 'tcp and src host 10.9.0.2' > $capture 2>&1 &
	tcpdump=$!
	await 30 grep -q 'listening on' $capture
	queue $log segment 1 || return 1
	asks 1
	ends $spawned || return 1
	wait $tcpdump
	[[ $(grep -c 'cksum 0x[0-9a-f]* (correct)' $capture) == 4 ]] &&
		[[ $(grep -o 'seq [0-9]*:[0-9]*' $capture | tr '\n' ' ') == 'seq 5000:6000 seq 6000:7000 seq 7000:8000 seq 8000:9000 ' ]] &&
		[[ $(grep -c 'Flags \[P\.\]' $capture) == 1 ]] && return
	cat $capture $log
	return 1
}
check "the card cuts a long segment, each part with its headers" segmented

# Each of these breaks one rule in its second answer.
violates() {
	local before

	before=$(card_counter violations)
	queue $log "$1" 2 || return 1
	asks 2
	ends $spawned && await 30 card_violated "$2" && (($(card_counter violations) > before)) && return
	cat $log
	tail -n 3 $card_log
	return 1
}
saw=$(card_counter violations)
queue $log none 2
check "a work request written by hand is as good" answered 2
ends $spawned || cat $log
check "... nothing was violated" test "$(card_counter violations)" = "$saw"
check "the doorbell before its record" violates bell-first 'rang for 1 before its record (1)'
check "a work request with another index" violates wrong-index 'says qp .* and index 7'
check "... of another queue pair" violates wrong-qp 'says qp .* and index 1'
check "... with another opcode" violates wrong-opcode 'opcode 0x8'
check "... longer than what was posted" violates too-long 'has 144 bytes'
check "... without headers in it" violates no-headers '2 bytes of headers'
check "a key of nothing" violates wrong-key 'does not cover'
check "bytes outside of the region" violates out-of-bounds 'does not cover'
check "more work requests than the queue has room for" violates too-many 'there is room for'
check "a long segment without its checksums" violates segment-checksums 'without checksums'
check "... without a size of its parts" violates segment-mss 'segmentation of 4000 bytes at 0'
check "... whose headers are partly in its data" violates segment-headers '52 of .* bytes of headers'
verdict
