#!/bin/bash
# The cost of a send and a receive: executed instructions, counted one by one and compared with
# budget.txt; and how many of them are locked: none in thread mode 0, two in mode 1. The result does
# not depend on the load of the machine: an answer is one segment, and none is late for the call that
# takes it (calls.c). The fewest count: a peer that has no processor for long sends an answer twice.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	counted calls             echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
. tests/budget/compare.sh

calls=(udp_send udp_recv udp_sendto udp_recvfrom tcp_send tcp_recv)

steps=$(find_program tools/bench/steps) || exit 1
program=$(find_program tests/budget/calls) || exit 1
probe=$(netns_find_probe) || exit 1
[[ -n $lib ]] || die "no library to count in"
netns_pair ""
without_bare_acks s
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv \
	udp:7001:recv tcp:7001:late || die "no server"

# measure MODE [VARIABLE=VALUE...]: the internal thread does not poll the ring, so the calls are
# uncontended. $port, $times: of the server, and how often a call is counted.
port=7000 times=15
measure() {
	(netns_exec c "" 0-1023 timeout -s KILL 200 "$steps" env LD_PRELOAD="$lib" "${vma_env[@]}" \
		VMA_PROGRESS_ENGINE_INTERVAL=0 VMA_THREAD_MODE="$1" "${@:2}" \
		"$program" $netns_server $port $times > $netns_tmp/counts.$1 2>&1 < /dev/null)
}

# count MODE CALL WHAT: a number of a call; empty without one.
count() {
	[[ $(grep -E "^call=$2 instructions=" $netns_tmp/counts.$1) =~ \ $3=([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

# budget MODE NAME: the number in budget.txt.
budget() {
	awk -v name="$2" -v field=$(($1 + 2)) '$1 == name { print $field }' tests/budget/budget.txt
}

# Their number and places: function, file and line.
is_locked_at_most() {
	local mode=$1 call=$2 most=$3 locked

	locked=$(count $mode $call locked)
	[[ -n $locked ]] && ((locked <= most)) && return
	echo "     ${locked:-no count}:"
	sed -nE "s/^call=$call locked_at=//p" $netns_tmp/counts.$mode | while IFS=+ read -r image offset; do
		echo "     $image+$offset $([[ $image != libvma.so ]] ||
			addr2line -i -s -f -e "$lib" "$offset" | paste -sd ' ')"
	done
	return 1
}

check_mode() {
	local mode=$1 call most

	for call in "${calls[@]}"; do
		most=$(budget $mode locked)
		check "mode $mode: $call: at most $most locked instructions" is_locked_at_most $mode $call "$most"
		[[ $compiler == gcc ]] || continue
		most=$(budget $mode $call)
		check "mode $mode: $call: $(count $mode $call fewest) instructions, budget $most" \
			is_within "$(count $mode $call fewest)" "$most"
	done
}

# In the form of budget.txt.
table() {
	local call mode

	for call in "${calls[@]}"; do
		printf '%s\t%s' $call "$( ((${#call} < 8)) && echo $'\t')"
		for mode in 0 1 2 3; do
			printf '\t%s' "$(count $mode $call fewest)"
		done
		echo
	done
}

compiler=gcc
! is_of_clang "$lib" || compiler=clang
for mode in 0 1 2 3; do
	check "mode $mode: the calls are counted" measure $mode || cat $netns_tmp/counts.$mode
	check_mode $mode
done

# A server that takes its time: on a busy machine each is one.
mv $netns_tmp/counts.1 $netns_tmp/counted
port=7001 times=3
check "of a late server" measure 1 || cat $netns_tmp/counts.1
port=7000 times=15
check "tcp_recv: $(count 1 tcp_recv fewest) instructions, as of one in time" \
	is_within "$(count 1 tcp_recv fewest)" "$(budget 1 tcp_recv)"
mv $netns_tmp/counted $netns_tmp/counts.1

# What the counters of sockets cost a call. Without them two instructions look whether there are any.
most=12 look=2
cost() {
	echo $(($(count 1 $1 fewest) - ${without[$1]} + look))
}
declare -A without
mv $netns_tmp/counts.1 $netns_tmp/counted
check "without counters of sockets" measure 1 VMA_STATS_FD_NUM=0 || cat $netns_tmp/counts.1
for call in "${calls[@]}"; do without[$call]=$(count 1 $call fewest); done
mv $netns_tmp/counted $netns_tmp/counts.1
for call in "${calls[@]}"; do
	check "$call: its counters cost $(cost $call) instructions, at most $most" test "$(cost $call)" -le $most
done
printf '\nmeasured:\n%s\n\n' "$(table)"
say_changes tests/budget/budget.txt
verdict
