#!/bin/bash
# The cost of finding the flow of a frame: instructions, counted one by one and compared with
# look.txt. The result does not depend on the load of the machine.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
export LIB= # it is in the program
netns_enter "$self" "$@"
. tests/budget/compare.sh

steps=$(find_program tools/bench/steps) || exit 1
program=$(find_program tests/budget/look) || exit 1

measure() {
	timeout -s KILL 60 "$steps" "$program" 15 > $netns_tmp/counts 2>&1 < /dev/null
}

# have NAME WHAT: a number of a call; empty without one.
have() {
	[[ $(grep -E "^call=$1 instructions=" $netns_tmp/counts) =~ \ $2=([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

check "the calls are counted" measure || cat $netns_tmp/counts
for way in table tag; do
	if is_of_clang "$program"; then
		echo "     $way: $(have $way instructions) instructions; the budget is gcc's"
		continue
	fi
	most=$(awk -v name=$way '$1 == name { print $2 }' tests/budget/look.txt)
	check "$way: $(have $way instructions) instructions, budget $most" is_within "$(have $way instructions)" "$most"
done
check "a tag is cheaper" test "$(have tag instructions)" -lt "$(have table instructions)"
say_changes tests/budget/look.txt
verdict
