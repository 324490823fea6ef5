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
	netns_spawn $log s "$lib:$netns_tmp/shim.so" env "${card_vars[@]}" VMA_RX_WRE=256 VMA_TX_WRE=256 \
		VMA_TX_MAX_INLINE=400 MLX5_MUTANT="$1" "$traffic" serve $netns_server 7000
}

ask() {
	(netns_exec c "" 0-1023 timeout -s KILL 20 "$traffic" "$@" > $netns_tmp/ask 2>&1)
}

datagrams() {
	netns_counters s UdpInDatagrams UdpNoPorts UdpInErrors
}

# While the card sends nothing, more answers are due than the queue has room for.
blast() {
	card_fault hold
	ask blast $netns_server 7000 600
	card_fault go
	await 30 drained
}

# The card has sent what it could, and nothing more comes.
drained() {
	local now before

	before=$(card_counter sent)
	read -rt 0.05 <> <(:)
	now=$(card_counter sent)
	((now == before))
}

# behaves: what a right port does. Otherwise false, and $found says what was wrong.
behaves() {
	local violations saw

	violations=$(card_counter violations)
	saw=$(datagrams)
	found="the answers: "
	ask ask $netns_server 7000 100 || { found+=$(tail -n 1 $netns_tmp/ask) && return 1; }
	ask spoil $netns_server 7000 5 || { found+=$(tail -n 1 $netns_tmp/ask) && return 1; }
	blast
	ask ask $netns_server 7000 10 || { found+=$(tail -n 1 $netns_tmp/ask) && return 1; }
	found="the kernel saw datagrams"
	[[ $saw == "$(datagrams)" ]] || return 1
	found="datagrams for another program: "
	ask ask $netns_server 7500 1 || return 1
	ask ask $other 7000 1 || return 1
	found=$(grep '^violation' $card_log | tail -n 1)
	[[ $(card_counter violations) == "$violations" ]]
}

# Anything: what the card has seen is told first.
is_found() {
	local violations works=0

	violations=$(card_counter violations)
	if start "$1"; then
		behaves && works=1
	else
		found="it does not start: $(tail -n 1 $log)"
	fi
	netns_kill $spawned
	(($(card_counter violations) == violations)) || found=$(grep '^violation' $card_log | tail -n +$((violations + 1)) | head -n 1)
	((!works)) && echo "     $found"
}

check "without a defect" start none || cat $log
check "... it is the mlx5 port, made wrong" grep -q MLX5_MUTANT $lib
check "... all is well" behaves || echo "     $found"
netns_kill $spawned
# Those of large segments are segment_test's.
(($#)) || mapfile -t names < <(sed -n 's/^= \([^\t]*\)\t[^(].*/\1/p' tests/mlx5/mutants.txt | grep -v '^large-')
(($#)) && names=("$@")
for name in "${names[@]}"; do
	check "$name: $(sed -n "s/^= $name\t\([^(].*\)/\1/p" tests/mlx5/mutants.txt)" is_found "$name"
done
verdict
