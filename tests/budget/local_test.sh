#!/bin/bash
# The cost of 14 bytes through a byte ring and a record ring: instructions, counted one by one and
# compared with local.txt. The result does not depend on the load of the machine.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
export LIB= # it is in the program
netns_enter "$self" "$@"
. tests/budget/compare.sh


steps=$(find_program tools/bench/steps) || exit 1
program=$(find_program tests/budget/local) || exit 1

measure() {
	timeout -s KILL 60 "$steps" "$program" 15 > $netns_tmp/counts 2>&1 < /dev/null
}

# have NAME WHAT: a number of a call; empty without one.
have() {
	[[ $(grep -E "^call=$1 instructions=" $netns_tmp/counts) =~ \ $2=([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

# budget NAME FIELD: a number in local.txt.
budget() {
	awk -v name="$1" -v field="$2" '$1 == name { print $field }' tests/budget/local.txt
}

check "the calls are counted" measure || cat $netns_tmp/counts
for call in bytes_send bytes_recv record_send record_recv; do
	most=$(budget $call 3)
	check "$call: at most $most locked instructions" test "$(have $call locked)" -le "$most"
	if is_of_clang "$program"; then
		echo "     $call: $(have $call instructions) instructions; the budget is gcc's"
		continue
	fi
	most=$(budget $call 2)
	check "$call: $(have $call instructions) instructions, budget $most" is_within "$(have $call instructions)" "$most"
done
say_changes tests/budget/local.txt
verdict
