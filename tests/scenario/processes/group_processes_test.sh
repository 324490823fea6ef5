#!/bin/bash
# Eight accelerated processes share one interface. Two of them, in turns, are killed and started
# again every 100 ms; one of the two answers new members. The others lose nothing.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	asks, by the kernel       servers, ports 7000 to 7007
#
#	group_processes_test.sh [SECONDS]	at least, and at least one death a second
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
seconds=${1:-10}
netns_pair ""
servers=()

# start N: starts server N, accelerated.
start() {
	netns_spawn "$netns_tmp/serve$1" s "$lib" "$probe" serve "udp:700$1:recv" "tcp:700$1:poll"
	servers[$1]=$spawned
}

# ask_for_ever PROTO N: sends requests until an answer is missing.
ask_for_ever() {
	while netns_run c "" "$probe" ask "$1" $netns_server "700$2" 200 > "$netns_tmp/ask$1$2" &&
		grep -q answers "$netns_tmp/ask$1$2"; do
		echo >> "$netns_tmp/rounds$1$2"
	done
}

# rounds NAME: how many rounds were answered, of those that are over.
rounds() {
	wc -l < "$netns_tmp/rounds$1"
} 2> /dev/null

# goes_on PID NAME ROUNDS: no answer was missing so far, nor in the rounds that end from now on.
goes_on() {
	await 60 eval "is_gone $1 || ((\$(rounds $2) > $3))" && ! is_gone "$1"
}

not_warned() {
	! grep -H 'not accelerated' $netns_tmp/serve*
}

no_xdp() {
	! netns_has_xdp s v0
}

for n in 0 1 2 3 4 5 6 7; do
	check "server $n" start $n
done
check "all are accelerated" not_warned
before=$(netns_counters s UdpInDatagrams TcpInSegs)
askers=()
for n in 2 3 4 5 6 7; do
	for protocol in udp tcp; do
		ask_for_ever $protocol $n &
		askers+=("$!:$protocol$n")
	done
done
end=$((SECONDS + seconds))
kills=0
while ((SECONDS < end || kills <= seconds)); do
	victim=$((kills % 2))
	netns_kill "${servers[$victim]}"
	start $victim || check "server $victim restarts" false
	kills=$((kills + 1))
	sleep 0.1 # clients ask between two deaths
done
before_end=()
for asker in "${askers[@]}"; do
	before_end+=("$(rounds "${asker#*:}")")
done
for i in "${!askers[@]}"; do
	asker=${askers[i]}
	check "${asker#*:} was answered throughout" goes_on "${asker%:*}" "${asker#*:}" "${before_end[i]:-0}" ||
		cat "$netns_tmp/ask${asker#*:}" 2> /dev/null
done
for asker in "${askers[@]}"; do
	kill "${asker%:*}" 2> /dev/null
done
check "no process was refused" not_warned
if [[ -n $lib ]]; then
	echo "$kills were killed"
	check "nothing went through the kernel" test "$before" = "$(netns_counters s UdpInDatagrams TcpInSegs)"
fi
netns_kill "${servers[@]}"
check "the last one releases the interface" await 30 no_xdp
verdict
