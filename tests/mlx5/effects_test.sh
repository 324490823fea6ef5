#!/bin/bash
# What the parameters of class "acts" that speak of the card change there: the emulated card counts
# bells, requests, completions and posted buffers. A program drives the port (hot.c): it takes in a
# burst, which the peer sends when it has the answers to the one before, and answers it.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
export LIB= # it is in the program
netns_enter "$self" "$@"
. tests/mlx5/card.sh

needs ethtool ping
steps=$(find_program tools/bench/steps) || exit 1
program=$(find_program tests/mlx5/hot) || exit 1
traffic=$(find_program tests/mlx5/traffic) || exit 1
card_start
counted=(sent from_kernel bells blue_flames in_place signals posts)

# run BURSTS BURST LENGTH [VARIABLE=VALUE...]: ${now[NAME]} is how much each counter has grown.
declare -A now
run() {
	local name log=$netns_tmp/port.log

	# All at the same time: the kernel sends when it likes.
	local -A before
	read_counters before
	netns_spawn $log s "" "${card_env[@]}" "${@:4}" timeout -s KILL 60 \
		"$steps" "$program" count port mlx5_0 mlx0 $netns_server 7000 "$1" "$2" || { cat $log && return 1; }
	(netns_exec c "" 0-1023 timeout -s KILL 60 "$traffic" ring $netns_server 7000 "$1" "$2" "$3" > $netns_tmp/ask 2>&1) || {
		cat $netns_tmp/ask $log
		return 1
	}
	await 30 is_gone $spawned && wait $spawned || { cat $log && return 1; }
	read_counters now
	for name in "${counted[@]}"; do now[$name]=$((now[$name] - before[$name])); done
	now[frames]=$((now[sent] - now[from_kernel])) # ARP is the kernel's
}

# read_counters NAME: all counters, into an associative array.
read_counters() {
	local -n into=$1
	local i words

	read -ra words <<< "$(card_counters)"
	for ((i = 0; i < ${#words[@]}; i += 2)); do into[${words[i]}]=${words[i + 1]}; done
}

# is WHAT "NAME COUNT..." BURSTS BURST LENGTH [VARIABLE=VALUE...]
is() {
	local i name said='' right=1 words

	run "${@:3}" || right=0
	read -ra words <<< "$2"
	for ((i = 0; i < ${#words[@]}; i += 2)); do
		name=${words[i]}
		said+=" $name ${now[$name]}"
		[[ ${now[$name]} == "${words[i + 1]}" ]] || right=0
	done
	check "$1:$said" test $right == 1
}

# One frame at a time, so the request is the only news.
is "short requests are written to the register whole" "bells 16 blue_flames 16" 16 1 14
is "VMA_BF=0" "bells 16 blue_flames 0" 16 1 14 VMA_BF=0
is "a request of more than one block, too" "bells 16 blue_flames 16" 16 1 150
is "... VMA_BF=0" "bells 16 blue_flames 0" 16 1 150 VMA_BF=0
is "not where a bell tells of several" "bells 4 blue_flames 0" 4 16 14

# Of 14 bytes the frame has 56, and 60 with padding; of 400, 442; of 1400, 1442.
is "short frames lie in their requests" "in_place 16" 16 1 14
is "... the longest one of 204" "in_place 16" 16 1 162
is "... not one of 205" "in_place 0" 16 1 163
is "VMA_TX_MAX_INLINE=0" "in_place 0" 16 1 14 VMA_TX_MAX_INLINE=0
is "VMA_TX_MAX_INLINE=500" "in_place 16" 16 1 400 VMA_TX_MAX_INLINE=500
is "... and no longer ones" "in_place 0" 16 1 1400 VMA_TX_MAX_INLINE=500
is "VMA_TX_MAX_INLINE has a limit" "in_place 16" 16 1 932 VMA_TX_MAX_INLINE=65535
is "... of 974" "in_place 0" 16 1 933 VMA_TX_MAX_INLINE=65535

# 256 frames; the limits of small queues do not act.
is "one of 64 sent frames completes" "frames 256 signals 4" 16 16 1400
is "VMA_TX_WRE_BATCHING=16" "frames 256 signals 16" 16 16 1400 VMA_TX_WRE_BATCHING=16
is "VMA_TX_WRE_BATCHING=1" "frames 256 signals 256" 16 16 1400 VMA_TX_WRE_BATCHING=1

# The first burst finds the buffers of the start.
is "buffers are posted after 64 frames" "posts 4" 16 16 1400
is "VMA_RX_WRE_BATCHING=16" "posts 16" 16 16 1400 VMA_RX_WRE_BATCHING=16
is "VMA_RX_WRE_BATCHING=128" "posts 2" 16 16 1400 VMA_RX_WRE_BATCHING=128

is "queues by default" "rq 4096 sq 2048" 1 1 14
is "VMA_RX_WRE, VMA_TX_WRE" "rq 256 sq 512" 1 1 14 VMA_RX_WRE=256 VMA_TX_WRE=1000
is "... half of a small one is posted at once, at the latest" "posts 2" 16 16 1400 VMA_RX_WRE=256 VMA_RX_WRE_BATCHING=1000
check "nothing was violated" test "$(card_counter violations)" = 0
verdict
