#!/bin/bash
# `bench --device` measures the emulated card; its peer answers through its kernel.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
. tests/mlx5/card.sh

netns_needs_lib
needs ethtool ping sockperf
card_start
output=$netns_tmp/output

# bench ARG...: on the card's host.
bench() {
	(netns_exec s "" 0-1023 "${card_env[@]}" LIB="$lib" tools/bench/device.sh "$@" > $output 2>&1 < /dev/null)
}

# refuses PATTERN ARG...
refuses() {
	! bench "${@:2}" && grep -q "$1" $output
}

# is_row PATTERN: it has a figure in each column.
is_row() {
	grep -qE "^$1\$" $output
}

# answers: both of its sockperf servers, and what sends bursts.
answers() {
	listens c udp:7000 && listens c udp:7002 && listens c 7003
}

check "usage" refuses 'usage: bench' --device mlx5_0
check "another device" refuses 'no device mlx5_7; there are: mlx5_0' --device mlx5_7 --peer $netns_client
netns_exec c "" 0-1023 tools/bench/device.sh --answer $netns_server > $netns_tmp/answer 2>&1 < /dev/null &
answer=$!
check "the other host answers" await 30 answers
check "all is measured" bench --device mlx5_0 --peer $netns_client
figures=' +[1-9][0-9]*'
for length in 14 1400; do
	for burst in 16 1; do
		for call in recv send; do
			check "$call, $burst of $length bytes" is_row "$call +$burst +$length$figures$figures$figures$figures"
		done
	done
done
for way in libvma "kernel spinning" "kernel blocking"; do
	check "$way" is_row "$way( +[1-9][0-9]*\.[0-9]+){2}"
done
check "the library served the card" test "$(card_counter bells)" -gt 0
check "nothing was violated" test "$(card_counter violations)" = 0
kill -TERM $answer
check "the other host ends when told" await 30 is_gone $answer
check "... with its servers" test -z "$(in_ns c ss -Hlntu)"
((!failures)) || cat $output $netns_tmp/answer
verdict
