#!/bin/bash
# What vma_stats says of rings, beside traffic whose counts are known: a reader that sleeps before
# each datagram, and a connection whose peer is away, beside what tcpdump sees there.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	sleeper.py                tcpdump
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

needs tcpdump
probe=$(netns_find_probe) || exit 1
vma=$(find_program tools/vma/vma) || exit 1
dir=$netns_tmp/pages
log=$netns_tmp/log
mkdir $dir
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve tcp:7000:recv || die "no server"

# ring COUNTER...: of the only ring; socket FD COUNTER.
ring() {
	timeout 30 "$vma" stat -k $dir -p $spawned --json | python3 -c '
import json, sys
rings = json.load(sys.stdin)[0]["rings"]
print(*(sum(r[name] for r in rings) for name in sys.argv[1:]))' "$@"
}
socket() {
	timeout 30 "$vma" stat -k $dir -p $spawned --json | python3 -c '
import json, sys
print(*(s[sys.argv[2]] for s in json.load(sys.stdin)[0]["sockets"] if s["fd"] == int(sys.argv[1])))' "$@"
}

# interfaces: of the reader's rings.
interfaces() {
	timeout 30 "$vma" stat -k $dir -p $reader -v 3 -c 1 | sed -n 's/^Interface: //p' | sort | xargs
}

between() {
	(($1 <= $2 && $2 <= $3)) && return
	echo "     $2 is not from $1 to $3"
	return 1
}

# In ppoll(), and the library's threads do not count.
sleeps() {
	local call

	read -r call _ < /proc/$spawned/syscall
	[[ $call == 271 ]]
}

got() {
	local text rest

	IFS= read -rd '' text < $log
	rest=${text//$'\ngot'/}
	((${#text} - ${#rest} == 4 * $1))
}

# The other host sends a datagram for each line; one shell does it, since a process for each takes longer than the rest.
mkfifo $netns_tmp/datagrams
netns_exec s "" 0-1023 bash -c 'while read -r _; do echo -n x > /dev/udp/10.9.0.1/6000; done' < $netns_tmp/datagrams &
exec {datagrams}> $netns_tmp/datagrams

# ---- sleeps ----------------------------------------------------------------------

N=50
# sleeper ENV...: receives N datagrams, and sleeps before each of them.
sleeper() {
	vma_env=(VMA_TRACELEVEL=warn VMA_STATS_SHMEM_DIR=$dir "$@")
	netns_spawn $log c "$lib" python3 tests/scenario/stats/sleeper.py read 6000 || die "no reader"
	for ((i = 1; i <= N; i++)); do
		await 30 sleeps || die "the reader does not sleep"
		echo >&$datagrams
		await 30 got $i || die "datagram $i is lost"
	done
	await 30 sleeps || die "the reader does not sleep"
}
# slept: how often the reader has slept, as the kernel counts it.
slept() {
	awk '/^voluntary_ctxt_switches/ { print $2 }' /proc/$spawned/task/$spawned/status
}

# The internal thread takes no frames, which would end no sleep. Where datagrams from this host are
# possible, others cost what they cost without.
for local in 0 1; do
	sleeper VMA_RX_POLL=0 VMA_PROGRESS_ENGINE_INTERVAL=0 VMA_LOCAL=$local
	read -r interrupts requests <<< "$(ring interrupts interrupt_requests)"
	check "a reader that sleeps, VMA_LOCAL=$local: each datagram ends a sleep" between $N $interrupts $N
	check "... of which there is one more, and one for each question of ours" between $((N + 1)) $requests $((N + 3))
	check "... and the kernel has seen no fewer" between $N $((N + 1)) $(slept)
	check "... in view 3" eval 'timeout 30 "$vma" stat -k $dir -p $spawned -v 3 -c 1 | grep -qE "^Interrupts: +[0-9]+ / $interrupts "'
	check "... a call for each, and the one that waits, found nothing" between $((N + 1)) "$(socket 3 rx_misses)" $((N + 3))
	timeout 60 "$vma" stat -k $dir -p $spawned -z -c 1 > /dev/null
	check "zeroed" between 0 "$(ring interrupts)" 0
	((local)) || netns_kill $spawned
done
reader=$spawned
check "no sender is on this host: shared memory is no ring" test "$(interfaces)" == v0
netns_spawn $netns_tmp/sender c "$lib" python3 tests/scenario/stats/sleeper.py send 10.9.0.1 6000 || die "no sender"
check "the first datagram from this host ends a sleep, too" await 30 got $((N + 1))
check "... and shared memory is one" test "$(interfaces)" == "local v0"
netns_kill $spawned
netns_kill $reader

# It never sleeps.
vma_env=(VMA_TRACELEVEL=warn VMA_STATS_SHMEM_DIR=$dir VMA_RX_POLL=-1)
netns_spawn $log c "$lib" python3 tests/scenario/stats/sleeper.py read 6000 || die "no reader"
for ((i = 1; i <= N; i++)); do
	echo >&$datagrams
	await 30 got $i || die "datagram $i is lost"
done
check "a reader that polls: no datagram does" test "$(ring interrupts interrupt_requests)" == "0 0"
netns_kill $spawned

# ---- retransmissions -------------------------------------------------------------

# seen: segments with one byte that have come to the peer.
seen() {
	tcpdump -nr $netns_tmp/pcap 2> /dev/null | grep -c 'length 1$'
}
at_least() {
	(($(seen) >= $1))
}

mkfifo $netns_tmp/fifo
netns_exec c "$lib" 0-1023 python3 tests/scenario/stats/sleeper.py hold $netns_server 7000 > $log 2>&1 < $netns_tmp/fifo &
spawned=$!
exec {input}> $netns_tmp/fifo
await 30 grep -q '^ready' $log || die "no connection"
port=$(awk '/^ready/ { print $2 }' $log)
# Usually none: a late acknowledgement makes one.
sooner=$(ring retransmits)
netns_exec s "" 0-1023 tcpdump --immediate-mode -Uni v0 -w $netns_tmp/pcap "tcp src port $port" 2> $netns_tmp/tcpdump &
tcpdump=$!
await 30 grep -q 'listening on' $netns_tmp/tcpdump || die "no tcpdump"
ip -n s addr del 10.9.0.2/24 dev v0
echo >&$input
check "the peer is away: the segment comes again and again" await 30 at_least 5
ip -n s addr add 10.9.0.2/24 dev v0
acknowledged() {
	[[ $(socket 3 tx_queued_bytes) == 0 ]]
}
check "it is back: the byte is acknowledged" await 30 acknowledged
agree() {
	seen=$(seen)
	[[ $(ring retransmits) == $((seen - 1 + sooner)) && $(socket 3 retransmits) == $((seen - 1 + sooner)) ]]
}
check "the socket and the ring count what the peer's tcpdump has seen" await 30 agree
kill $tcpdump
wait $tcpdump
check "... in view 3" eval 'timeout 30 "$vma" stat -k $dir -p $spawned -v 3 -c 1 | grep -qE "^Retransmissions: +$((seen - 1 + sooner))$"'
exec {input}>&-
wait $spawned
verdict
