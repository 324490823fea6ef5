#!/bin/bash
# Times of arrival: what programs are told is what the card's clock said when the frame arrived. The
# clock stands, and the test sets it.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
. tests/mlx5/card.sh

needs ethtool ping
program=$(find_program tests/scenario/stamps) || exit 1
card_start
with_card="$lib:$netns_tmp/shim.so"
log=$netns_tmp/log
port=7000

# Options of SOL_SOCKET, flags of SO_TIMESTAMPING.
stampns=35
stamping=37
stamping_new=65
hardware=$((4 | 64)) # RX_HARDWARE, RAW_HARDWARE
software=$((8 | 16)) # RX_SOFTWARE, SOFTWARE
both=$((hardware | software))

# serve KIND OPTION VALUE [VARIABLE=VALUE...]: $spawned is its process; each has a port of its own.
serve() {
	lines=0
	port=$((port + 10))
	netns_spawn $log s "$with_card" env "${card_vars[@]}" VMA_TRACELEVEL=warn "${@:4}" "$program" "$1" $netns_server $port "$2" "$3" && return
	cat $log
	return 1
}

has_said() {
	(($(grep -c '^message' $log) > lines))
}

# knock: one datagram; $told is what the program says of it.
knock() {
	in_ns c bash -c "printf 12345678 > /dev/udp/$netns_server/$port"
	told
}

told() {
	await 30 has_said || { cat $log && return 1; }
	lines=$((lines + 1))
	told=$(grep '^message' $log | tail -n 1)
}

# of NAME: what stands behind it; nothing: it is not there.
of() {
	local words=" $told "

	[[ $words == *" $1 "* ]] || return
	words=${words#* "$1" }
	echo "${words%% *}"
}

# nsec TIME
nsec() {
	local sec=${1%.*} part=${1#*.}

	echo $((sec * 1000000000 + 10#$part))
}

# time_of WHAT: of the lines before the first message.
time_of() {
	awk -v what="$1" '$1 == what { print $2 }' $log
}

# is NAME TIME: the next datagram has this one.
is() {
	knock && [[ $(of "$1") == "$2" ]] && return
	echo "$told"
	return 1
}

# is_none NAME: the next datagram has a stamp, and none of these.
is_none() {
	is "$1" 0.000000000
}

# not_told: the next datagram has no stamp at all.
not_told() {
	knock && [[ $(of type) == "" ]] && return
	echo "$told"
	return 1
}

# at_start NAME: the time of the next datagram is that at which the program opened the card.
at_start() {
	knock || return 1
	first=$(nsec "$(of "$1")")
	((first >= $(nsec "$(time_of begin)") && first <= $(nsec "$(time_of ready)"))) && return
	cat $log
	return 1
}

# later NAME NSEC: than $first
later() {
	knock && (($(nsec "$(of "$1")") == first + $2)) && return
	echo "$told: not $((first + $2))"
	return 1
}

# corrected: the time of a datagram is after the one at which the clock was set.
corrected() {
	knock && (($(nsec "$(of hardware)") > set_at))
}

accelerated() {
	[[ $saw == $(netns_counters s UdpInDatagrams UdpNoPorts TcpPassiveOpens) ]]
}

saw=$(netns_counters s UdpInDatagrams UdpNoPorts TcpPassiveOpens)

card_fault "clock 5000000000"
check "the card's own clock" serve udp $stamping $both VMA_HW_TS_CONVERSION=1
check "... as it was when the datagram arrived" is hardware 5.000000000
check "... with the system's time" at_start software
card_fault "clock 5000001234"
check "... and 1,234 nanoseconds later" is hardware 5.000001234
netns_kill $spawned

card_fault "khz 156250"
card_fault "clock 156250000"
check "a clock of 156.25 MHz" serve udp $stamping $hardware VMA_HW_TS_CONVERSION=1
check "... its second" is hardware 1.000000000
check "... without the system's time" test "$(of software)" = 0.000000000
card_fault "clock 156250005"
check "... and five ticks" is hardware 1.000000032
netns_kill $spawned

card_fault "khz 1000000"
card_fault "clock 18446744073709551614"
check "in step with the system's clock" serve udp $stamping $both
check "... the time at which the card was opened" at_start hardware
check "... also that of the software" test "$(of software)" = "$(of hardware)"
card_fault "clock 3"
check "... five ticks later" later hardware 5
card_fault "clock 1003"
set_at=$(date +%s%N)
check "... it is corrected when the clocks differ" await 30 corrected
netns_kill $spawned
check "VMA_HW_TS_CONVERSION=2: the same" serve udp $stamping $hardware VMA_HW_TS_CONVERSION=2
check "... the time at which the card was opened" at_start hardware
netns_kill $spawned

card_fault "clock 77000000000"
card_fault "ptp 1700000000123456789"
check "PTP time" serve udp $stamping $hardware VMA_HW_TS_CONVERSION=4
check "... as the driver says" is hardware 1700000000.123456789
card_fault "clock 77000000011"
check "... and 11 nanoseconds later" is hardware 1700000000.123456800
card_fault "ptp 1600000000000000000"
check "... when it is set" await 30 is hardware 1600000000.000000000
netns_kill $spawned

check "SO_TIMESTAMPNS" serve udp $stampns 1
check "... is the time of the arrival, not of the call" at_start software
netns_kill $spawned
check "SO_TIMESTAMPING_NEW" serve udp $stamping_new $both VMA_HW_TS_CONVERSION=1
check "... has the same stamps" is hardware 77.000000011
check "... in a message of its own" test "$(of type)" = $stamping_new
netns_kill $spawned

check "the extra API" serve callback $stamping $both VMA_HW_TS_CONVERSION=1
check "... tells the callback" is hardware 77.000000011
check "... both" at_start software
netns_kill $spawned

check "a connection" serve tcp $stamping $both VMA_HW_TS_CONVERSION=1
exec {peer}> >(in_ns c bash -c "exec 3<> /dev/tcp/$netns_server/$port && cat >&3")
printf 1234 >&$peer
check "... tells of its data" told
check "... the card's time" test "$(of hardware)" = 77.000000011
card_fault "clock 88000000000"
printf 5678 >&$peer
check "... and that of the next ones" told && check "... another one" test "$(of hardware)" = 88.000000000
exec {peer}>&-
netns_kill $spawned

card_fault "khz 0"
check "a card without a clock" serve udp $stamping $hardware
check "... has no stamps" not_told
netns_kill $spawned
check "... but the software does" serve udp $stamping $both
check "... has no stamps of hardware" is_none hardware
netns_kill $spawned
check "the kernel saw none of it" accelerated
card_fault "khz 1000000"
check "VMA_HW_TS_CONVERSION=0" serve udp $stamping $both VMA_HW_TS_CONVERSION=0
check "... the kernel tells what it knows" is_none hardware
check "... and gets the datagrams" test "$saw" != "$(netns_counters s UdpInDatagrams UdpNoPorts TcpPassiveOpens)"
netns_kill $spawned
check "nothing was violated" test "$(card_counter violations)" = 0
verdict
