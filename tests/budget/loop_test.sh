#!/bin/bash
# The cost of a TCP segment of 100 bytes over the loop-back port, sent and received: instructions,
# counted one by one and compared with loop.txt. The result does not depend on the load of the
# machine.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
export LIB= # it is in the program
netns_enter "$self" "$@"

burst=16 # segments per call of loop_recv
more=3   # per cent above the budget are allowed
less=3   # per cent below it require a new budget

steps=$(find_program tools/bench/steps) || exit 1
program=$(find_program tests/budget/loop) || exit 1

measure() {
	VMA_PROGRESS_ENGINE_INTERVAL=0 timeout -s KILL 60 "$steps" "$program" 15 > $netns_tmp/counts 2>&1 < /dev/null
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

is_within() {
	local n

	n=$(have $1)
	((n * 100 < $2 * (100 - less))) && cheaper=1
	[[ -n $n && -n $2 ]] && ((n * 100 <= $2 * (100 + more)))
}

cheaper=0
dearer=0
check "the calls are counted" measure || cat $netns_tmp/counts
for call in send recv ack; do
	if grep -q 'clang version' "$program"; then
		echo "     $call: $(have $call) instructions; the budget is gcc's"
		continue
	fi
	check "$call: $(have $call) instructions a segment, budget $(budget $call)" is_within $call "$(budget $call)" ||
		dearer=1
done
((!dearer)) || cat << END
More than $more % above tests/budget/loop.txt.  If the price is meant to be paid, put the
figure there, and say in the commit what it buys.
END
((!cheaper)) || cat << END
More than $less % below tests/budget/loop.txt: put the figure there, to keep what was won.
END
verdict
