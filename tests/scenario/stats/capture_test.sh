#!/bin/bash
# vma capture: what it writes is what the kernel's peer saw, and tcpdump and tshark read it; whoever
# ends, however it ends, the others go on.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	talker.py, vma capture    echo, by the kernel; tcpdump
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib
needs tcpdump tshark ethtool

probe=$(netns_find_probe) || exit 1
vma=$(find_program tools/vma/vma) || exit 1
dir=$netns_tmp/pages
export VMA_STATS_SHMEM_DIR=$dir
mkdir $dir
netns_pair ""
# The peer sees frames as they are on the wire.
in_ns s ethtool -K v0 tx off gro off gso off tso off > /dev/null
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"

# start NAME PORT ENV...: a talker that obeys `tell COMMAND`; its process id is $pid.
start() {
	log=$netns_tmp/$1
	mkfifo $log.fifo
	vma_env=(VMA_TRACELEVEL=warn VMA_RX_POLL=-1 VMA_STATS_SHMEM_DIR=$dir "${@:3}")
	netns_spawn $log c "$lib" python3 tests/scenario/stats/talker.py $log.fifo "$2" ||
		{ cat $log && die "no talker"; }
	pid=$spawned
	exec {fifo}> $log.fifo
}

# tell COMMAND: returns when it is done.
tell() {
	local before

	before=$(grep -c "^done $*" $log)
	echo "$*" >&$fifo
	await 30 eval "((\$(grep -c '^done $*' $log) > before))"
}

# The process ends a capture some milliseconds after its tool.
ends() {
	await 30 eval '! captures'
}

# capture FILE ARG...: in the background, until `stop`; returns when frames are captured.
capture() {
	ends || return
	rm -f "$1"
	"$vma" capture $pid -w "$@" 2> $netns_tmp/said &
	tool=$!
	await 30 eval "test -s $1 || is_gone $tool" && ! is_gone $tool
}

# The process has the memory of a capture.
captures() {
	ls -l /proc/$pid/fd 2> /dev/null | grep -q 'memfd:vmacapture'
}

# stop [SIGNAL]: its exit status.
stop() {
	kill -"${1:-INT}" $tool 2> /dev/null
	await 30 is_gone $tool || return 99
	wait $tool
}

# Everything that the peer sent is acknowledged: no frame is on its way.
settle() {
	await 30 eval '! in_ns s ss -tin | grep -q unacked:'
}

check_file() {
	timeout -s KILL 30 python3 tests/scenario/stats/capture_check.py "$@"
}

is() {
	[[ $1 == "$2" ]] && return
	echo "     $1 instead of $2"
	return 1
}

# says WORDS: the tool that ended last.
says() {
	grep -qEe "$1" $netns_tmp/said && return
	cat $netns_tmp/said
	return 1
}

# refused STATUS WORDS COMMAND...: so it ends, and says that.
refused() {
	local rc

	timeout -s KILL 30 "${@:3}" > $netns_tmp/said 2>&1
	rc=$?
	is $rc "$1" && says "$2"
}

# peer FILE: what the peer sees, until `peer_done`.
peer() {
	netns_exec s "" 0-1023 tcpdump -i v0 -w "$1" -U --immediate-mode --time-stamp-precision=nano port 7000 2> $netns_tmp/tcpdump &
	peer=$!
	await 30 grep -q 'listening on' $netns_tmp/tcpdump || die "no tcpdump"
}

# peer_done FILE N: it has seen so many frames.
peer_done() {
	await 30 eval "((\$(tcpdump -r '$1' 2> /dev/null | wc -l) >= $2))"
	kill -TERM $peer
	wait $peer
}

start one 5000
file=$netns_tmp/one.pcapng

# ---- UDP and TCP, both directions, beside the peer ----
settle
peer $netns_tmp/peer.pcap
check "a capture begins" capture $file
check "... UDP" tell udp 500
check "... TCP" tell tcp 60
settle
check "... ends with SIGINT" stop
check "... and the process has nothing left of it" ends
n=$(check_file packets $file)
peer_done $netns_tmp/peer.pcap $n
check "frame by frame what the peer saw" check_file same $file $netns_tmp/peer.pcap 10.9.0.1
check "... at least what was sent" test $n -ge 1120
check "in order" check_file times $file
check "the verdicts" check_file comments $file \
	'accelerated over v0 on ring 0; (udp 10\.9\.0\.1:[0-9]+ to 10\.9\.0\.2:7000; fd 3|tcp 10\.9\.0\.1:[0-9]+ to 10\.9\.0\.2:7000; fd 4)'
check "the counts" is "$(check_file counts $file)" "$n 0 $n $n"
check "... are said" says "^vma capture: $n frames written; the process had $n, of which 0 "
check "the file is its owner's" is "$(stat -c %a $file)" 600
tcpdump --time-stamp-precision=nano -nvr $file > $netns_tmp/read 2>&1
check "tcpdump reads it" is "$(grep -c '10.9.0.2.7000' $netns_tmp/read)" $n
check "... checksums are right" eval '! grep -iE "incorrect|bad (udp )?cksum" $netns_tmp/read'
check "... both directions" test "$(grep -c '> 10.9.0.2.7000' $netns_tmp/read)" -ge 560
tshark -r $file -T fields -e frame.interface_name -e frame.packet_flags_direction -e frame.comment \
	-e _ws.malformed -z expert > $netns_tmp/reads 2> $netns_tmp/why
# Lines of frames have tabs; its complaints follow.
grep -P '\t' $netns_tmp/reads > $netns_tmp/read
check "tshark reads it" is "$(wc -l < $netns_tmp/read)" $n || cat $netns_tmp/why
check "... with interface, direction and verdict" eval "! grep -vP '^v0\t(0x0*1|0x0*2|1|2)\taccelerated over v0 on ring 0; .*; fd [34]\t\$' $netns_tmp/read"
check "... and nothing is malformed" eval '! grep -iE "malformed|checksum" $netns_tmp/reads'

# ---- options ----
check "a filter" capture $file udp and port 7000
tell udp 20
tell tcp 5
check "... ends with SIGTERM" stop TERM
check "... passes what it says" is "$(check_file packets $file)" 40
check "... the counts know the others" eval '[[ $(check_file counts $file) =~ ^[0-9]+\ 0\ 40\ 40$ ]] && (($(check_file counts $file | cut -d" " -f1) >= 50))'
check "not" capture $file not udp
tell udp 20
tell tcp 5
stop
check "... passes the others" test "$(tcpdump -nr $file tcp 2> /dev/null | wc -l)" = "$(check_file packets $file)"
check "a count, the first bytes" capture $file -c 7 -s 42
tell udp 20
check "... ends by itself" await 30 is_gone $tool
wait $tool
check "... status" is $? 0
check "... so many" is "$(check_file packets $file)" 7
check "... so long" is "$(tshark -r $file -T fields -e frame.cap_len -e frame.len 2> /dev/null | sort -u)" $'42\t92'
"$vma" capture $pid -w $file -d 1 2> $netns_tmp/said &
tool=$!
check "a duration" await 30 is_gone $tool
wait $tool
check "... status" is $? 0
ends || die "the last capture does not end"
"$vma" capture $pid -w - -c 6 udp 2> $netns_tmp/said | tcpdump -nr - > $netns_tmp/read 2> $netns_tmp/reads &
tool=$!
await 30 grep -q '^reading from' $netns_tmp/reads
tell udp 10
check "standard output" await 30 eval '(($(grep -c 10.9.0.2.7000 $netns_tmp/read) == 6))'
wait $tool
timeout -s KILL 30 "$vma" capture $pid -w - 2> $netns_tmp/said | true
check "nobody reads: it ends" test "${PIPESTATUS[0]}" -ne 137
check "... and captures nothing" ends

# ---- several tools, and how they end ----
check "a first one" capture $file
check "a second one is refused" refused 1 'another vma capture is running' "$vma" capture $pid -w $netns_tmp/two
check "... and leaves no file" test ! -e $netns_tmp/two
tell udp 10
check "... the first one does not notice" stop
check "... at all" is "$(check_file packets $file)" 20
capture $file
netns_kill $tool
check "killed: the capture ends by itself" ends
check "... and the process goes on" tell udp 10
capture $file -B 128
kill -STOP $tool
check "stopped: the process does not wait" tell udp 2000
kill -CONT $tool
check "... what was lost is counted" stop
counts=($(check_file counts $file))
check "... ${counts[*]}" eval '((counts[0] == 4000 && counts[1] > 1000 && counts[0] == counts[1] + counts[2]))'
check "... frames are whole" is "$(tshark -r $file -q -z expert 2>&1 | grep -ci malformed)" 0

# ---- refusals ----
check "no filter of tcpdump" refused 3 'filter: .*syntax error' "$vma" capture $pid -w $netns_tmp/none udp and
check "no file" refused 3 '^usage' "$vma" capture $pid
check "no process" refused 3 '^usage' "$vma" capture -w $netns_tmp/none
check "no such process" refused 1 'no accelerated sockets' "$vma" capture 999999 -w $netns_tmp/none
check "a wrong number" refused 3 '-s: 65536 is not a valid value' "$vma" capture $pid -w $netns_tmp/none -s 65536
check "a file that cannot be written" refused 1 'none/none: No such file' "$vma" capture $pid -w $netns_tmp/none/none
check "a full disk" refused 1 '/dev/full: cannot be written' "$vma" capture $pid -w /dev/full -d 1
chmod 755 $netns_tmp $dir
cp "$vma" $netns_tmp/vma && chmod 755 $netns_tmp/vma
check "another user" refused 1 'another user' setpriv --reuid 65534 --regid 65534 --clear-groups \
	$netns_tmp/vma capture $pid -w /dev/null -k $dir
chmod 644 $dir/vmastat.$pid
check "... even if the file is open to all" refused 1 'another user' setpriv --reuid 65534 --regid 65534 --clear-groups \
	$netns_tmp/vma capture $pid -w /dev/null -k $dir

# ---- fork and death ----
check "a capture" capture $file
check "... during a fork" eval 'echo fork >&$fifo && await 30 grep -q ^child $log'
tell udp 10
child=$(awk '/^child/ { print $2 }' $log)
check "... the child is not captured" eval '! ls -l /proc/$child/fd | grep -q memfd:vmacapture'
stop
check "... the parent is" is "$(check_file packets $file)" 20
capture $file
tell udp 10
netns_kill $pid
check "the process is killed: the tool ends" await 30 is_gone $tool
wait $tool
check "... status" is $? 0
check "... with all frames" is "$(check_file packets $file)" 20
kill -KILL $child
netns_kill $child
start two 5100
capture $file
tell tcp 5
echo quit >&$fifo
check "the process ends: the tool ends" await 30 is_gone $tool
check "... with the last FIN" test "$(tcpdump -nr $file 'tcp[13] & 1 != 0 and src host 10.9.0.1' 2> /dev/null | wc -l)" -ge 1

# ---- a mode without locks, several rings ----
start three 5200 VMA_THREAD_MODE=0
capture $file udp
tell udp 300
stop
check "thread mode 0" is "$(check_file packets $file)" 600
echo quit >&$fifo
await 30 is_gone $pid
start four 5300 VMA_RING_ALLOCATION_LOGIC_RX=10 VMA_RING_ALLOCATION_LOGIC_TX=10
capture $file
tell udp 100
tell tcp 100
check "several rings" stop
tshark -r $file -T fields -e frame.time_epoch -e frame.interface_id > $netns_tmp/read 2> /dev/null
check "... are several interfaces" test "$(cut -f2 $netns_tmp/read | sort -u | wc -l)" -ge 2
check "... merged by time" sort -cnk1,1 $netns_tmp/read
verdict
