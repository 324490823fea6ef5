#!/bin/bash
# The port made wrong on purpose, in many ways: each is found, by the emulated card, by the peer, or
# by the kernel that sees what is not its own. Without a defect nothing is.
#
#	mutant_test.sh [NAME...]
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
LIB=$(find_program tests/mlx5/libmutants.so) || exit 1
export LIB
netns_enter "$self" "$@"
. tests/mlx5/card.sh

other=10.9.0.22 # an address of the kernel's servers alone
needs ethtool ping
traffic=$(find_program tests/mlx5/traffic) || exit 1
card_start
ip -n s addr add $other/24 dev mlx0
netns_spawn $netns_tmp/other.log s "" "$traffic" serve $other 7000
netns_spawn $netns_tmp/others_port.log s "" "$traffic" serve $netns_server 7500
log=$netns_tmp/log

# start NAME: a server with this defect; $spawned is its process.
start() {
	local vma_env=("${card_vars[@]}" VMA_TRACELEVEL=warn VMA_RX_WRE=256 VMA_TX_WRE=256 VMA_SELECT_POLL=10000
		VMA_TX_MAX_INLINE=400 MLX5_MUTANT="$1")

	netns_spawn $log s "$lib:$netns_tmp/shim.so" "$traffic" serve $netns_server 7000
}

# A defect may lose answers: a right port may take its time. Not by netns_exec: it starts four programs more.
patience=30
ask() {
	TRAFFIC_WAIT=$patience timeout -s KILL 120 nsenter --net=/run/netns/c -- "$traffic" "$@" > $netns_tmp/ask 2>&1
}

datagrams() {
	netns_counters s UdpInDatagrams UdpNoPorts UdpInErrors
}

# While the card sends nothing, more answers are due than the queue has room for; then it sends them.
blast() {
	local full=0

	card_fault hold
	await 30 is_full && full=1
	card_fault go
	((full)) && await 30 has_sent_all
}

# A request has 8 blocks at most, and one block is kept.
is_full() {
	ask blast $netns_server 7000 50
	(($(card_counter waiting) + 9 >= $(card_counter sq)))
}

has_sent_all() {
	(($(card_counter waiting) == 0))
}

# sleeps: after an answer the server arms its queue, since nothing comes.
sleeps() {
	local arms

	arms=$(card_counter arms)
	ask ask $netns_server 7000 1 && await 30 has_armed
}

has_armed() {
	(($(card_counter arms) > arms))
}

# obeys: the card has seen nothing that is forbidden.
obeys() {
	(($(card_counter violations) == violations))
}

# behaves: what a right port does. Otherwise false, and $found says what was wrong.
behaves() {
	local saw violations

	violations=$(card_counter violations)
	saw=$(datagrams)
	found="the answers: "
	# Each queue goes round several times. With 300 bytes a request has 6 blocks, so some of
	# them lie over the end of the queue, whichever lap it is.
	ask ask $netns_server 7000 100 && ask ask $netns_server 7000 50 8 300 || { found+=$(tail -n 1 $netns_tmp/ask) && return 1; }
	# The port has not heard of an error that the card did not report: it would be opened again,
	# and might be so before the next datagram comes.
	found=$(grep 'reports an error' $log) && return 1
	obeys || return 1
	found="the kernel saw datagrams"
	[[ $saw == "$(datagrams)" ]] || return 1
	found="the answers: "
	ask spoil $netns_server 7000 5 || { found+=$(tail -n 1 $netns_tmp/ask) && return 1; }
	found="the queue does not fill, or not empty itself"
	blast || return 1
	found="it does not sleep, or not wake up"
	# What is armed wrongly is seen when it is armed again.
	sleeps && sleeps && sleeps || return 1
	found="the answers: "
	ask ask $netns_server 7000 10 || { found+=$(tail -n 1 $netns_tmp/ask) && return 1; }
	found=$(grep 'reports an error' $log) && return 1
	found="the kernel saw datagrams"
	[[ $saw == "$(datagrams)" ]] || return 1
	found="datagrams for another program: "
	ask ask $netns_server 7500 1 && ask ask $other 7000 1 && obeys
}

# Anything: what the card has seen is told first.
is_found() {
	local violations works=0

	violations=$(card_counter violations)
	patience=2
	if start "$1"; then
		behaves && works=1
	else
		found="it does not start: $(tail -n 1 $log)"
	fi
	netns_kill $spawned
	(($(card_counter violations) == violations)) || {
		works=0
		found=$(grep '^violation' $card_log | tail -n +$((violations + 1)) | head -n 1)
	}
	((!works)) && echo "     $found"
}

check "without a defect" start none || cat $log
check "... it is the mlx5 port, made wrong" grep -q MLX5_MUTANT $lib
check "... all is well, nothing was violated" behaves || { echo "     $found" && grep '^violation' $card_log; }
netns_kill $spawned
# Those of large segments are segment_test's.
declare -A what
names=("$@")
while IFS=$'\t' read -r name does; do
	what[$name]=$does
	(($#)) || [[ $name == large-* ]] || names+=("$name")
done < <(sed -n 's/^= \([^\t]*\t[^(].*\)/\1/p' tests/mlx5/mutants.txt)
for name in "${names[@]}"; do
	check "$name: ${what[$name]}" is_found "$name"
done
verdict
