#!/bin/bash
# The cost of 14 bytes on one host: instructions, counted one by one and compared with local.txt: of
# a byte ring and a record ring, and of the calls of a program whose peers are local. The result does
# not depend on the load of the machine.
#
#	s  lo 127.0.0.1           counted calls; echo, by the library
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
. tests/budget/compare.sh

steps=$(find_program tools/bench/steps) || exit 1
rings=$(find_program tests/budget/local) || exit 1
calls=$(find_program tests/budget/calls) || exit 1
probe=$(netns_find_probe) || exit 1
[[ -n $lib ]] || die "no library to count in"
both=350 # a send and a receive together are cheaper, in each thread mode
netns_pair ""
export VMA_LOCAL=1
# It never sleeps, and no thread asks for a notice where it has no processor for long: nobody has to wake it.
VMA_RX_POLL=-1 VMA_PROGRESS_ENGINE_INTERVAL=0 netns_spawn $netns_tmp/serve s "$lib" "$probe" serve tcp:7000:recv || die "no server"

measure_rings() {
	timeout -s KILL 200 "$steps" "$rings" 15 > $netns_tmp/counts.rings 2>&1 < /dev/null
}

# The internal thread does not poll the ring: the calls are uncontended.
measure_calls() {
	(netns_exec s "" 0-1023 timeout -s KILL 200 "$steps" env LD_PRELOAD="$lib" "${vma_env[@]}" \
		VMA_PROGRESS_ENGINE_INTERVAL=0 VMA_THREAD_MODE="$1" \
		"$calls" 127.0.0.1 7000 45 local > $netns_tmp/counts.$1 2>&1 < /dev/null)
}

# have WHERE CALL WHAT: a number of a call; empty without one.
have() {
	[[ $(grep -E "^call=$2 instructions=" $netns_tmp/counts.$1) =~ \ $3=([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

# budget CALL FIELD: a number in local.txt.
budget() {
	awk -v name="$1" -v field="$2" '$1 == name { print $field }' tests/budget/local.txt
}

# check_call WHERE CALL FIELD MOST: its instructions, and the locked ones.
check_call() {
	local where=$1 call=$2 most

	check "$where: $call: at most $4 locked instructions" test "$(have $where $call locked)" -le "$4"
	if is_of_clang "$rings"; then
		echo "     $call: $(have $where $call instructions) instructions; the budget is gcc's"
		return
	fi
	most=$(budget $call $3)
	check "$where: $call: $(have $where $call instructions) instructions, budget $most" \
		is_within "$(have $where $call instructions)" "$most"
}

is_cheap() {
	local all=$(($(have $1 $2_send instructions) + $(have $1 $2_recv instructions)))

	((all > 0 && all < both)) || { echo "     $all"; return 1; }
}

check "the rings' calls are counted" measure_rings || cat $netns_tmp/counts.rings
for call in bytes_send bytes_recv record_send record_recv; do
	check_call rings $call 2 "$(budget $call 3)"
done
for mode in 0 1 2 3; do
	check "mode $mode: the calls are counted" measure_calls $mode || cat $netns_tmp/counts.$mode
	for call in tcp_send tcp_recv; do
		check_call $mode $call $((mode + 2)) "$(budget locked $((mode + 2)))"
	done
	for call in udp_send udp_recv udp_sendto udp_recvfrom; do
		locked=${call%to}
		check_call $mode $call $((mode + 2)) "$(budget ${locked%from}_locked $((mode + 2)))"
	done
	for proto in tcp udp; do
		is_of_clang "$rings" || ((mode == 2)) ||
			check "mode $mode: $proto: fewer than $both for a send and a receive" is_cheap $mode $proto
	done
done
say_changes tests/budget/local.txt
verdict
