#!/bin/bash
# The cost of a TCP segment of 100 bytes over the loop-back port, sent and received: instructions,
# counted one by one and compared with loop.txt. The result does not depend on the load of the
# machine.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
export LIB= # it is in the program
netns_enter "$self" "$@"
. tests/budget/compare.sh

burst=16 # segments per call of loop_recv

steps=$(find_program tools/bench/steps) || exit 1
program=$(find_program tests/budget/loop) || exit 1

measure() {
	VMA_PROGRESS_ENGINE_INTERVAL=0 timeout -s KILL 200 "$steps" "$program" 15 > $netns_tmp/counts 2>&1 < /dev/null
}

# have NAME: instructions per segment; empty without a count.
have() {
	local segments=$burst

	[[ $1 != send ]] || segments=1
	[[ $(grep -E "^call=loop_$1 " $netns_tmp/counts) =~ instructions=([0-9]+) ]] &&
		echo $((BASH_REMATCH[1] / segments))
}

# budget NAME: the number in loop.txt.
budget() {
	awk -v name="$1" '$1 == name { print $2 }' tests/budget/loop.txt
}

check "the calls are counted" measure || cat $netns_tmp/counts
for call in send recv ack; do
	if is_of_clang "$program"; then
		echo "     $call: $(have $call) instructions; the budget is gcc's"
		continue
	fi
	check "$call: $(have $call) instructions a segment, budget $(budget $call)" is_within "$(have $call)" "$(budget $call)"
done
say_changes tests/budget/loop.txt
verdict
