#!/bin/bash
# The flight recorder: what happens to a connection that loses segments is in `vma trace` in
# order, and as often as the counters say; also when the process was killed.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	talker.py                 echo, by the kernel; the answers get lost for a while
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

probe=$(netns_find_probe) || exit 1
stats=$(find_program tools/vma/vma_stats) || exit 1
vma=$(find_program tools/vma/vma) || exit 1
dir=$netns_tmp/pages
mkdir $dir
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"

# start NAME PORT ENV...: a talker that obeys `tell COMMAND`; its process id is $pid.
start() {
	log=$netns_tmp/$1
	mkfifo $log.fifo
	vma_env=(VMA_TRACELEVEL=warn VMA_STATS_SHMEM_DIR=$dir "${@:3}")
	netns_spawn $log c "$lib" python3 tests/scenario/stats/talker.py $log.fifo "$2" ||
		{ cat $log && die "no talker"; }
	pid=$spawned
	exec {fifo}> $log.fifo
}

# tell COMMAND: to the talker that was started last; returns when it is done.
tell() {
	local before

	before=$(grep -c "^done $*" $log)
	echo "$*" >&$fifo
	await 60 eval "((\$(grep -c '^done $*' $log) > before))"
}

is() {
	[[ $1 == "$2" ]] && return
	echo "     $1 instead of $2"
	return 1
}

says() {
	"${@:2}" > $netns_tmp/said 2>&1
	grep -qEe "$1" $netns_tmp/said && return
	cat $netns_tmp/said
	return 1
}

# A number from the statistics: sum EXPRESSION, of the process p.
number() {
	timeout 30 "$stats" -k $dir -p $pid --json | python3 -c '
import json, sys
p = json.load(sys.stdin)[0]
print(eval(sys.argv[1]))' "$1"
}

# How many events of a kind there are: events WORD OPTION...
events() {
	timeout 30 "$vma" trace --json "${@:2}" $pid | python3 -c '
import json, sys
print(sum(e["times"] for e in map(json.loads, sys.stdin) if e["event"] == sys.argv[1]))' "$1"
}

# The events of the kinds in a regular expression, in order: words REGEX OPTION...
words() {
	timeout 30 "$vma" trace "${@:2}" $pid | sed -nE "s/.*  ($1)([ ,].*)?$/\1/p" | uniq | paste -sd,
}

check "no process" says '^vma trace: process 999999: there is no such process, and it left nothing behind$' "$vma" trace 999999
check "no recorder" says 'process 1: it has no flight recorder' "$vma" trace 1
check "no number" says 'one process id is expected' "$vma" trace 12x
check "nothing to list" says '^no process has a flight recorder' "$vma" trace

start one 5000
check "a process that runs" says "^process $pid \\(python3\\) runs, libvma [0-9]" "$vma" trace $pid
check "... is listed" says "^process $pid \\(python3\\) runs" "$vma" trace
check "its ring" says ' ring 0  ring opened$' "$vma" trace $pid
check "a connection begins" is "$(words 'socket .* -> CONN[A-Z]+|TCP .* -> [A-Z_]+' --fd 4)" \
	"socket OPEN -> CONNECTING,TCP CLOSED -> SYN_SENT,TCP SYN_SENT -> ESTABLISHED,socket CONNECTING -> CONNECTED"
check "... which is named" says 'fd 4 tcp 10\.9\.0\.1:[0-9]+ 10\.9\.0\.2:7000 #[0-9]+  TCP SYN_SENT' "$vma" trace $pid
check "a socket that falls back" says 'fd 8 udp .*falls back to the kernel: an option is set' "$vma" trace $pid
# Usually none: a late acknowledgement makes one.
sooner=$(events retransmit)
check "sleeps are left out" is "$(events sleep)" 0

# ---- loss ----
# What the server sends gets lost: our segments arrive, and no acknowledgement comes back.
ip -n s route add blackhole 10.9.0.1 || die "no loss"
echo "tcp 3" >&$fifo
check "retransmissions" await 30 eval '(( $(events retransmit) >= sooner + 4 ))'
ip -n s route del blackhole 10.9.0.1
check "... which help in the end" await 60 grep -q '^done tcp 3' $log
check "... first a probe, then timeouts" is "$(words 'tail loss probe|retransmission timeout' --fd 4 | cut -d, -f1-2)" \
	"tail loss probe,retransmission timeout"
check "... are those of the socket" is "$(events retransmit --fd 4)" "$(number 'sum(s["retransmits"] for s in p["sockets"])')"
check "... and of its ring" is "$(events retransmit)" "$(number 'sum(r["retransmits"] for r in p["rings"])')"
check "timeouts" says 'fd 4 .*retransmission timeout, the next one after [0-9]+ ms$' "$vma" trace $pid
check "drops" is "$(events drop)" "$(number 'sum(sum(r["drops"].values()) for r in p["rings"])')"
check "sleeps" test "$(events sleep --sleeps)" -gt 0
check "... as the ring counts" test "$(number 'p["rings"][0]["interrupts"]')" -gt 0

# ---- drops ----
# Datagrams to a socket that nobody reads: its buffer takes 212992 bytes.
before=$(events drop)
netns_run s "" python3 -c '
from socket import *
s = socket(AF_INET, SOCK_DGRAM)
for i in range(400): s.sendto(bytes(1400), ("10.9.0.1", 5001))'
await 30 eval "(( \$(events drop) > before ))"
check "drops are recorded" says 'dropped: receive buffer of the socket is full, port [0-9]+ to 5001' "$vma" trace $pid
check "... as often as counted" is "$(events drop)" "$(number 'sum(sum(r["drops"].values()) for r in p["rings"])')"
check "... for this socket" is "$(events drop --fd 6)" "$(number 'next(s["rx_drops"] for s in p["sockets"] if s["fd"] == 6)')"
check "... and no other" is "$(events drop --fd 7)" 0
check "no ring 5" is "$(timeout 30 "$vma" trace --ring 5 $pid | wc -l)" 1

# ---- in the log ----
"$stats" -k $dir -p $pid -l debug
"$stats" -k $dir -p $pid -S 0 info
check "the dump of all has events" grep -qE 'VMA INFO: trace: [0-9.]* ring 0 .*: retransmission [0-9]+ bytes' $log

# ---- following ----
timeout 60 "$vma" trace --follow $pid > $netns_tmp/followed 2> $netns_tmp/follow.err &
watcher=$!
await 30 grep -q 'ring opened' $netns_tmp/followed
seen=$(wc -l < $netns_tmp/followed)
tell fork
await 30 grep -q '^child' $log
child=$(awk '/^child/ { print $2 }' $log)
kill -STOP $pid
check "a stopped process" await 30 says "^process $pid \\(python3\\) is stopped" "$vma" trace $pid
check "... who follows it is told" await 30 grep -q "process $pid is stopped" $netns_tmp/follow.err
kill -CONT $pid
tell tcp 1
netns_run s "" python3 -c '
from socket import *
s = socket(AF_INET, SOCK_DGRAM)
for i in range(400): s.sendto(bytes(1400), ("10.9.0.1", 5001))'
check "what follows is shown" await 30 eval "(( \$(wc -l < $netns_tmp/followed) > seen ))"
check "a child has its own" says "^process $child \\(python3\\) runs" "$vma" trace $child
check "... with its own socket only" says 'udp 10\.9\.0\.1:[0-9]+ .*socket OPEN -> RECEIVING' "$vma" trace $child

# ---- the end ----
kill $child
await 30 is_gone $child
echo quit >&$fifo
await 30 is_gone $pid
wait $watcher
check "who follows sees the end" test $? == 0
check "... is told" grep -q "process $pid has ended" $netns_tmp/follow.err
check "... and has seen the last steps" grep -q 'TCP ESTABLISHED -> FIN_WAIT_1' $netns_tmp/followed
check "an orderly end leaves nothing" says "process $pid: there is no such process" "$vma" trace $pid

start two 5100 VMA_HANDLE_SIGSEGV=1
check "a second process" says "^process $pid \\(python3\\) runs" "$vma" trace $pid
netns_kill $pid
check "a killed process" says "^process $pid \\(python3\\) was killed" "$vma" trace $pid
check "... shows its last events" grep -q 'fd 4 tcp .*TCP SYN_SENT -> ESTABLISHED' $netns_tmp/said
check "... is listed" says "^process $pid \\(python3\\) was killed" "$vma" trace
check "... has no statistics any more" says 'Failed to identify process|has ended' "$stats" -k $dir -p $pid

start three 5200 VMA_HANDLE_SIGSEGV=1
kill -SEGV $pid
await 30 is_gone $pid
check "the log of a fault has events" grep -qE 'VMA PANIC: trace: [0-9.]* ring 0 .*TCP SYN_SENT -> ESTABLISHED' $log
verdict
