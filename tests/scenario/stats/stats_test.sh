#!/bin/bash
# Each view of vma_stats, of traffic whose counts are known; and what the other options do to
# the process.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	talker.py, vma_stats      echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

probe=$(netns_find_probe) || exit 1
stats=$(find_program tools/vma/vma_stats) || exit 1
dir=$netns_tmp/pages
mkdir $dir
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"

# start NAME PORT ENV...: a talker that obeys `tell COMMAND`; its process id is $pid.
start() {
	local name=$1

	mkfifo $netns_tmp/$name.fifo
	# Calls do not sleep, so none of them misses.
	vma_env=(VMA_TRACELEVEL=warn VMA_RX_POLL=-1 VMA_SELECT_POLL=-1 VMA_STATS_SHMEM_DIR=$dir "${@:3}")
	netns_spawn $netns_tmp/$name c "$lib" python3 tests/scenario/stats/talker.py $netns_tmp/$name.fifo "$2" ||
		{ cat $netns_tmp/$name && die "no talker"; }
	pid=$spawned
	exec {fifo}> $netns_tmp/$name.fifo
}

# tell COMMAND: to the talker that was started last; returns when it is done.
tell() {
	local before

	before=$(grep -c "^done $*" $log)
	echo "$*" >&$fifo
	await 30 eval "((\$(grep -c '^done $*' $log) > before))"
}

# What differs from run to run: ports that the kernel chose, process ids, inodes and their length.
masked() {
	sed -E "s/\b$pid\b/PID/g; s/epoll\[[0-9]+\]/epoll[EP]/; s/(Polling CPU:)[0-9]+%/\1CPU%/; s/(10\.9\.0\.1:)(3|4|5|6)[0-9]{4}/\1PORT/g; s/ [0-9]{4,} +PID/ INODE  PID/"
}

# views NAME:"ARG ARG...": vma_stats at the same time with each of these; its output is in $dir.NAME. Each waits for up
# to a second.
views() {
	local view args pids=()

	for view; do
		read -ra args <<< "${view#*:}"
		timeout 30 "$stats" -k $dir "${args[@]}" > $dir.${view%%:*} 2>&1 &
		pids+=($!)
	done
	wait "${pids[@]}"
}

# shows NAME: that output is what is on standard input.
shows() {
	diff <(sed -E 's/ +$//') <(masked < $dir.$1 | sed -E 's/ +$//')
}

# value FD:COUNTER...: of the process, from its JSON, which takes up to a second: so long does the process sleep.
value() {
	timeout 30 "$stats" -k $dir -p $pid --json | python3 -c '
import json, sys
of = {s["fd"]: s for s in json.load(sys.stdin)[0]["sockets"]}
print(*(of[int(fd)][name] for fd, name in (word.split(":") for word in sys.argv[1:])))' "$@"
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

check "no process" says '^vmastat: Failed to identify process...$' "$stats" -k $dir
log=$netns_tmp/one
start one 5000 VMA_STATS_FILE=$netns_tmp/file.%d VMA_CPU_USAGE_STATS=1
check "descriptors" grep -q '^udp=3 tcp=4 member=5 other=6 listener=7 left=8 epoll=' $log
check "the file is its owner's" is "$(stat -c '%a %U' $dir/vmastat.$pid)" "600 root"

views "1:-c 1 -s 3-5" "2:-c 1 -v 2 -s 3,5" "3:-p $pid -v 3 -c 1 -s 3-5" "json:-p $pid --json" "4:-v 4" "5:-v 5" \
	"6:-v 6 -s 8" "6of3:-v 6 -s 3"
check "view 1" shows 1 << 'END'
vmastat: stats for application: python3 with pid: PID
 fd      ------------ total offloaded -------------   --------- total os ----------
                pkt   Kbyte   eagain   error  poll%     pkt   Kbyte  eagain   error
 3   Rx:        106       5        0       0  100.0       0       0       0       0
     Tx:        106       5        0       0              0       0       0       0
 4   Rx:         10       9        0       0  100.0       0       0       0       0
     Tx:         10       9        0       0              0       0       0       0
 5   Rx:          0       0        3       0    0.0       0       0       0       0
     Tx:          0       0        0       0              0       0       0       0
select()   Rx Ready:0/1 [os/offload] Timeouts:0     Errors:0    Poll:100.00%   Polling CPU:CPU%
epoll[EP]   Rx Ready:0/5 [os/offload] Timeouts:1     Errors:0    Poll:100.00%   Polling CPU:CPU%
-------------------------------------------------------------------------------
END
check "view 2" shows 2 << 'END'
vmastat: stats for application: python3 with pid: PID
 fd      ------------------------ total offloaded ------------------------   --------- total os ----------
                pkt   Kbyte   eagain   error  poll%   ---- queue pkt -----     pkt   Kbyte  eagain   error
                                                       cur     max    drop
 3   Rx:        106       5        0       0  100.0      0       1       0       0       0       0       0
     Tx:        106       5        0       0                                     0       0       0       0
 5   Rx:          0       0        3       0    0.0      0       0       0       0       0       0       0
     Tx:          0       0        0       0                                     0       0       0       0
select()   Rx Ready:0/1 [os/offload] Timeouts:0     Errors:0    Poll:100.00%   Polling CPU:CPU%
epoll[EP]   Rx Ready:0/5 [os/offload] Timeouts:1     Errors:0    Poll:100.00%   Polling CPU:CPU%
-------------------------------------------------------------------------------
END
# Frames of a ring are those of all its sockets and of TCP itself; its buffers depend on the port.
# The share of polling is shown from 1 % on, which depends on the speed of the machine.
view3() {
	masked < $dir.3 | sed -E 's/ +$//' |
		sed -E 's/(Offload: +)[0-9]+ \/ [0-9]+ (\[kilobytes\/packets\])/\1N \/ N \2/; s/^(Drained max|Buffer pool size|Size): +[0-9]+/\1: N/' |
		grep -vE '^(Dropped|Polling CPU):'
}
check "view 3" diff <(view3) - << 'END'
vmastat: stats for application: python3 with pid: PID
======================================================
	Fd=[3]
- UDP, Blocked, MC Loop Enabled
- Local Address   = [10.9.0.1:PORT]
- Foreign Address = [10.9.0.2:7000]
Tx Offload: 5 / 106 / 0 / 0 [kilobytes/packets/eagains/errors]
Rx Offload: 5 / 106 / 0 / 0 [kilobytes/packets/eagains/errors]
Rx byte: cur 0 / max 156 / dropped 0 / limit 212992
Rx pkt : cur 0 / max 1 / dropped 0
Rx poll: 0 / 106 (100.00%) [miss/hit]
======================================================
======================================================
	Fd=[4]
- TCP, Blocked
- Local Address   = [10.9.0.1:PORT]
- Foreign Address = [10.9.0.2:7000]
Tx Offload: 9 / 10 / 0 / 0 [kilobytes/packets/eagains/errors]
Rx Offload: 9 / 10 / 0 / 0 [kilobytes/packets/eagains/errors]
Rx byte: cur 0 / max 0 / dropped 0 / limit 262144
Rx poll: 0 / 10 (100.00%) [miss/hit]
======================================================
======================================================
	Fd=[5]
- UDP, Non-blocked, MC Loop Enabled
- Local Address   = [0.0.0.0:5000]
- Member of = [224.9.9.9]
- Member of = [224.9.9.10]
Rx Offload: 0 / 0 / 3 / 0 [kilobytes/packets/eagains/errors]
Rx poll: 3 / 0 (0.00%) [miss/hit]
======================================================
======================================================
	select()
Rx fds ready: 0 / 1 [os/offload]
Polls [miss/hit]: 0 / 1 (100.00%)
======================================================
======================================================
	epoll[EP]
Rx fds ready: 0 / 5 [os/offload]
Polls [miss/hit]: 0 / 6 (100.00%)
Timeouts: 1
======================================================
======================================================
	CQ=[0]
Packets dropped:              0
Packets queue len:            0
Drained max: N
Buffer pool size: N
======================================================
======================================================
	RING_ETH=[0]
Interface: v0
Tx Offload:    N / N [kilobytes/packets]
Rx Offload:    N / N [kilobytes/packets]
======================================================
======================================================
	BUFFER_POOL(RX)=[0]
Size: N
No buffers error:             0
======================================================
	BUFFER_POOL(TX)=[1]
Size: N
No buffers error:             0
======================================================
END
check "time of polling" says '"epoll[0-9]+":[^}]*"polling_ns":[1-9]' cat $dir.json
check "view 4" shows 4 << 'END'
vmastat: stats for application: python3 with pid: PID
VMA Group Memberships Information
Group                fd number
------------------------------
[224.9.9.9]           5 6
[224.9.9.10]          5
-------------------------------------------------------------------------------
END
check "view 5" shows 5 << 'END'
Proto Offloaded Recv-Q               Send-Q               Local Address          Foreign Address       State       Inode      PID/Program name
udp   Yes       0                    0                    10.9.0.1:PORT         10.9.0.2:7000                     INODE  PID/python3
tcp   Yes       0                    0                    10.9.0.1:PORT         10.9.0.2:7000         ESTABLISHED INODE  PID/python3
udp   Yes       0                    0                    0.0.0.0:5000           0.0.0.0:*                         INODE  PID/python3
udp   Yes       0                    0                    10.9.0.1:5001          0.0.0.0:*                         INODE  PID/python3
tcp6  Yes       0                    0                    10.9.0.1:5002          0.0.0.0:*             LISTEN      INODE  PID/python3
udp   No        0                    0                    10.9.0.1:5003          0.0.0.0:*                         INODE  PID/python3
END
check "view 6" says 'kernel: an option is set that only the kernel serves$' cat $dir.6
check "... of an accelerated socket" says 'accelerated over v0 on ring 0$' cat $dir.6of3

# ---- counts ----
check "datagrams" tell udp 40
check "... count" is "$(value 3:rx_packets 3:tx_bytes)" "146 7300"
check "segments" tell tcp 5
check "... count" is "$(value 4:rx_packets 4:tx_packets 4:rx_bytes 4:rx_reads)" "15 15 15000 15"
check "zero" timeout 30 "$stats" -k $dir -z -c 1 > $netns_tmp/zeroed
check "... is shown" grep -qE '^ 3 +Rx: +0 +0 +0 +0 +0\.0' $netns_tmp/zeroed
check "... is all" is "$(value 4:rx_packets 4:rx_bytes 4:tx_bytes)" "0 0 0"
tell tcp 2
tell udp 3
check "... and counting goes on" is "$(value 3:rx_packets 4:rx_packets 4:tx_bytes)" "3 2 2000"
check "changes without traffic" says '^ 3 +Rx: +0 +0 ' timeout 30 "$stats" -k $dir -d 2 -c 1
timeout 30 "$stats" -k $dir -d 2 -c 2 > $netns_tmp/deltas &
watcher=$!
# How many, the speed of the machine decides.
until is_gone $watcher; do
	tell udp 100
done
wait $watcher
check "changes with traffic" grep -qE '^ 3 +Rx: +[1-9]' $netns_tmp/deltas
check "OpenMetrics" says '^vma_socket_rx_packets_total\{.*fd="4".*\} 2$' "$stats" -k $dir --openmetrics
check "... ends" is "$(tail -n 1 $netns_tmp/said)" "# EOF"

# ---- the log of the process ----
"$stats" -k $dir -S 4 info
check "the log level is respected" test "$(grep -c DUMPING $log)" == 0
"$stats" -k $dir -l debug -D 2
"$stats" -k $dir -S 4 info
check "dump of one" grep -q "Pid: .*VMA INFO: ============ DUMPING FD 4 STATISTICS ============" $log
check "... has its counters" grep -q "VMA INFO: Tx Offload: 1 / 2 / 0 / 0" $log
check "... and no other" test "$(grep -c 'Fd number' $log)" == 1
"$stats" -k $dir -S 0 info
check "dump of all" test "$(grep -c 'Fd number' $log)" == 6

# ---- several processes ----
first=$pid
log=$netns_tmp/two
start two 5100 VMA_STATS_FD_NUM=2
second=$pid
check "two processes" says "2 processes; choose one with -p: .*$first \\(python3\\)" "$stats" -k $dir -c 1
check "... one of them" says "with pid: $second" "$stats" -k $dir -c 1 -p $second
check "... in view 5" is "$("$stats" -k $dir -v 5 | grep -c "ESTABLISHED .*/python3")" 2
check "few slots" says '4 more sockets have no counters: see VMA_STATS_FD_NUM' "$stats" -k $dir -p $second -v 6
check "no such name" says 'Failed to identify process' "$stats" -k $dir -n perl
echo fork >&$fifo
await 30 grep -q '^child' $log
child=$(awk '/^child/ { print $2 }' $log)
pid=$child
check "a forked child has its own" is "$(value "$(awk '/^child/ { print $3 }' $log)":rx_packets)" 7
pid=$second
check "... which its parent does not count" is "$(value 3:rx_packets)" 106
kill -STOP $second
check "a stopped process" says "vmastat: process $second is stopped" timeout 30 "$stats" -k $dir -p $second -c 1
check "... is shown" grep -qE '^ 3 +Rx: +106 ' $netns_tmp/said
kill -CONT $second
timeout 30 "$stats" -k $dir -p $second > $netns_tmp/watched 2>&1 &
watcher=$!
await 30 grep -q ' 3  ' $netns_tmp/watched
netns_kill $second
wait $watcher
check "killed meanwhile" test $? == 1
check "... it says so" grep -q "vmastat: process $second has ended" $netns_tmp/watched
check "... its file remains" test -e $dir/vmastat.$second
"$stats" -k $dir -F -v 5 > /dev/null
check "... with -F, too" test -e $dir/vmastat.$second
"$stats" -k $dir -v 5 > /dev/null
check "... and is removed then" test ! -e $dir/vmastat.$second

# ---- latencies ----
check "no latencies" says '^Latencies are not measured: see VMA_STATS_LATENCY' "$stats" -k $dir -p $first -v 7 -c 1
kill -CONT $child && kill $child
log=$netns_tmp/three
start three 5200 VMA_STATS_LATENCY=1
views "7:-p $pid -v 7 -c 1" "json:-p $pid --json" "text:-p $pid --openmetrics"
check "latencies of datagrams" says '^3 +udp +10.9.0.1:[0-9]+ +10.9.0.2:7000 +106( +[0-9]+\.[0-9]){6}$' cat $dir.7
check "... of a connection" says '^4 +tcp +10.9.0.1:[0-9]+ +10.9.0.2:7000 +10 ' cat $dir.7
ordered='0 < l["p50_ns"] <= l["p90_ns"] <= l["p99_ns"] <= l["max_ns"] < 10**10 and sum(n for _, n in l["buckets"]) == l["count"] == 106'
check "... percentiles" is "$(python3 -c '
import json, sys
l = next(s["latency"] for s in json.load(sys.stdin)[0]["sockets"] if s["fd"] == 3)
print(eval(sys.argv[1]))' "$ordered" < $dir.json)" True
check "... in OpenMetrics" says '^vma_socket_latency_seconds_bucket\{.*fd="3".*,le="\+Inf"\} 106$' cat $dir.text
# A datagram that waits for half a second until it is read.
netns_run s "" python3 -c '
from socket import *
socket(AF_INET, SOCK_DGRAM).sendto(b"late", ("10.9.0.1", 5201))'
sleep_until=$((${EPOCHREALTIME/[.,]/} + 500000))
await 30 eval "((\${EPOCHREALTIME/[.,]/} > $sleep_until))"
tell read
check "... of data that waited" test "$(value 6:latency | sed -E "s/.*'max_ns': ([0-9]+).*/\1/")" -ge 500000000
timeout 30 "$stats" -k $dir -p $pid -z -c 1 > $netns_tmp/zeroed
check "... zeroed" is "$(timeout 30 "$stats" -k $dir -p $pid -v 7 -c 1 | grep -c '^[0-9]')" 0
netns_kill $pid

# ---- the end ----
pid=$first
check "version" says '^vma_stats, version [0-9]' "$stats" -V
check "wrong value" says 'vmastat: -v: 9 is not a valid value' "$stats" -v 9
netns_spawn $netns_tmp/pause c "$lib" "$probe" pause || die "no process"
check "no socket: no page" test ! -e $dir/vmastat.$spawned
exec {fifo}> $netns_tmp/one.fifo
echo quit >&$fifo
await 30 is_gone $first
check "its file is removed" test ! -e $dir/vmastat.$first
check "VMA_STATS_FILE" test "$(grep -c '^	Fd=' $netns_tmp/file.$first)" == 6
check "... of a connection" grep -q '^Tx Offload: 1 / 2 / 0 / 0' $netns_tmp/file.$first
verdict
