#!/bin/bash
# SO_TIMESTAMPNS is the time at which a datagram arrived, even if the program is stopped then, and
# receives it later: by one RX queue, and by two.
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

program=$(find_program tests/scenario/stamps) || exit 1
log=$netns_tmp/log

# frames NAMESPACE: that the interface has received.
frames() {
	in_ns "$1" awk '$1 == "v0:" { print $3 }' /proc/net/dev
}

has_more() {
	(($(frames "$1") > $2))
}

has_said() {
	(($(grep -c '^message' $log) >= $1))
}

send() {
	in_ns "c$1" bash -c "printf 12345678 > /dev/udp/$netns_server/7000"
}

# arrives QUEUES OPTION VALUE: $before, $stamp and $after are times in nanoseconds.
arrives() {
	local had

	netns_spawn $log "s$1" "$lib" env VMA_TRACELEVEL=warn "$program" udp $netns_server 7000 "$2" "$3" || return 1
	send "$1"
	await 30 has_said 1 || return 1
	kill -STOP $spawned
	had=$(frames "s$1")
	before=$(date +%s%N)
	send "$1"
	await 30 has_more "s$1" "$had" || return 1
	after=$(date +%s%N)
	kill -CONT $spawned
	await 30 has_said 2 || return 1
	stamp=$(awk '/^message/ { for (i = 1; i < NF; i++) if ($i == "software") at = $(i + 1) } END { sub(/\./, "", at); print at }' $log)
	netns_kill $spawned
	[[ $stamp ]]
}

# is_between: before the program went on; clocks of the two differ by some microseconds.
is_between() {
	((stamp > before - 100000 && stamp < after)) && return
	echo "$before $stamp $after"
	return 1
}

for queues in 1 2; do
	netns_pair $queues numrxqueues $queues numtxqueues $queues
	check "$queues RX queues, SO_TIMESTAMPNS" arrives $queues 35 1 || cat $log
	check "... is the time of the arrival" is_between
	check "$queues RX queues, SO_TIMESTAMPING" arrives $queues 37 24 || cat $log
	check "... is the time of the arrival" is_between
done
verdict
