#!/bin/bash
# The instructions of the mlx5 port, counted one by one: at most half of what the stock libraries
# need for the same packets on the same device, at most what hot.txt says, and none that is locked.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
export LIB= # it is in the program
netns_enter "$self" "$@"
. tests/budget/compare.sh
. tests/mlx5/card.sh

needs ethtool objdump ping
steps=$(find_program tools/bench/steps) || exit 1
program=$(find_program tests/mlx5/hot) || exit 1
traffic=$(find_program tests/mlx5/traffic) || exit 1
rounds=15
card_start

# measure WAY BURST LENGTH: the counts are in $netns_tmp/WAY.BURST.LENGTH.
measure() {
	local counts=$netns_tmp/$1.$2.$3

	# libmlx5 without locks, and both with a completion for each burst.
	netns_spawn $counts s "" "${card_env[@]}" MLX5_SINGLE_THREADED=1 VMA_RX_WRE=256 VMA_TX_WRE=256 \
		VMA_RX_WRE_BATCHING="$2" VMA_TX_WRE_BATCHING="$2" timeout -s KILL 60 \
		"$steps" "$program" count "$1" mlx5_0 mlx0 $netns_server 7000 $rounds "$2" || return 1
	(netns_exec c "" 0-1023 timeout -s KILL 60 "$traffic" ring $netns_server 7000 $rounds "$2" "$3" > $netns_tmp/ask 2>&1) || {
		cat $netns_tmp/ask
		return 1
	}
	await 30 is_gone $spawned && wait $spawned
}

# have WAY CALL BURST LENGTH [WHAT]
have() {
	[[ $(grep -E "^call=$2 instructions=" $netns_tmp/$1.$3.$4) =~ \ ${5:-instructions}=([0-9]+) ]] &&
		echo $((BASH_REMATCH[1] / ($# == 5 ? 1 : $3)))
}

is_half() {
	[[ -n $1 && -n $2 ]] && (($1 * 2 <= $2))
}

for length in 14 1400; do
	for burst in 16 1; do
		for way in verbs port; do
			check "$way, $burst datagrams of $length bytes" measure $way $burst $length || cat $netns_tmp/$way.$burst.$length
		done
	done
done
check "nothing was violated" test "$(card_counter violations)" = 0
while read -r call burst length most _; do
	have=$(have port $call $burst $length)
	stock=$(have verbs $call $burst $length)
	check "$call, $burst of $length bytes: no locked instruction" test "$(have port $call $burst $length locked)" = 0
	if is_of_clang "$program"; then
		echo "     $call: $have instructions, libmlx5 $stock; the budget is gcc's"
		continue
	fi
	check "$call, $burst of $length bytes: $have instructions a packet, budget $most" is_within "$have" "$most"
	check "... at most half of libmlx5's $stock" is_half "$have" "$stock"
done < <(grep -v '^#' tests/mlx5/hot.txt)
# On this processor the emulated card cannot see that one is missing: its registers are memory.
check "a fence before the doorbell register and one after it" test \
	"$(objdump -d --no-show-raw-insn "$program" | awk '/<mlx5_tx_flush>:/, !NF' | grep -c sfence)" = 2
say_changes tests/mlx5/hot.txt
verdict
