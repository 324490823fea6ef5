#!/bin/bash
# The card holds the events of receiving back (VMA_CQ_MODERATION_*), as much as suits the frames that
# arrive (VMA_CQ_AIM_*).  Time stands still on the card, but for the events that time makes.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
export LIB= # it is in the program
netns_enter "$self" "$@"
. tests/mlx5/card.sh

needs ethtool ping
program=$(find_program tests/mlx5/sleeper) || exit 1
traffic=$(find_program tests/mlx5/traffic) || exit 1
card_start
card_fault stop
log=$netns_tmp/log

# sleeper [VARIABLE=VALUE...]: starts it; $spawned is its process.
sleeper() {
	rounds=0
	netns_spawn $log s "" "${card_env[@]}" "$@" "$program" mlx0 $netns_server 7000 && return
	cat $log
	return 1
}

has_told() {
	(($(grep -c frames $log) > rounds))
}

# knock COUNT: sends so many datagrams; $told is what the sleeper says of them.
knock() {
	in_ns c "$traffic" knock $netns_server 7000 "$1" > $netns_tmp/knock || return 1
	await 30 has_told || return 1
	rounds=$((rounds + 1))
	told=$(tail -n 1 $log)
}

# wakes COUNT WHAT: do they make an event?
wakes() {
	knock "$1" && [[ $told == "$1 frames, $2" ]] && return
	cat $log
	return 1
}

# is_set FRAMES USEC: what the card was told last.
is_set() {
	[[ $(card_counter frames) == "$1" && $(card_counter usec) == "$2" ]]
}

aim=VMA_CQ_AIM_INTERVAL_MSEC
check "by default" sleeper $aim=0
check "... 48 frames or 50 microseconds" is_set 48 50
check "... 47 frames wait" wakes 47 "no event"
check "... 48 frames are told" wakes 48 event
netns_kill $spawned
check "VMA_CQ_MODERATION_COUNT=4" sleeper $aim=0 VMA_CQ_MODERATION_COUNT=4
check "... 3 frames wait" wakes 3 "no event"
check "... 4 frames are told" wakes 4 event
check "... and again 1 waits" wakes 1 "no event"
netns_kill $spawned
check "VMA_CQ_MODERATION_PERIOD_USEC=2000" sleeper $aim=0 LATE=1 VMA_CQ_MODERATION_PERIOD_USEC=2000
check "... is told to the card" is_set 48 2000
card_fault start
in_ns c "$traffic" knock $netns_server 7000 1
check "... makes an event when time passes" await 30 grep -q 'event' $log
card_fault stop
netns_kill $spawned
check "both have a limit" sleeper $aim=0 VMA_CQ_MODERATION_COUNT=100000 VMA_CQ_MODERATION_PERIOD_USEC=100000
check "... of 65535" is_set 65535 65535
netns_kill $spawned
moderated=$(card_counter moderated)
for off in VMA_CQ_MODERATION_ENABLE=0 VMA_CQ_MODERATION_COUNT=0 VMA_CQ_MODERATION_PERIOD_USEC=0; do
	check "$off" sleeper $aim=1 VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC=100000000 $off
	check "... each frame is told" wakes 1 event
	netns_kill $spawned
done
check "... the card was not told of it" test "$(card_counter moderated)" = "$moderated"

# After a burst it is adapted: at once, or after some more.
adapted() {
	knock 8 && is_set "$@"
}

check "many frames" sleeper $aim=1 VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC=1 VMA_CQ_AIM_MAX_COUNT=2 VMA_CQ_AIM_MAX_PERIOD_USEC=77
check "... up to VMA_CQ_AIM_MAX_COUNT=2, VMA_CQ_AIM_MAX_PERIOD_USEC=77" await 30 adapted 2 77
netns_kill $spawned
check "few frames, as VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC=100000000 says" sleeper $aim=1 \
	VMA_CQ_MODERATION_COUNT=7 VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC=100000000
check "... are told one by one" await 30 adapted 0 0
check "... each" wakes 1 event
netns_kill $spawned
for interval in 0 100000000; do
	check "VMA_CQ_AIM_INTERVAL_MSEC=$interval" sleeper $aim=$interval VMA_CQ_MODERATION_COUNT=7 \
		VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC=100000000
	check "... nothing is adapted" knock 8 && check "... nothing is" adapted 7 50
	netns_kill $spawned
done
check "nothing was violated" test "$(card_counter violations)" = 0
verdict
