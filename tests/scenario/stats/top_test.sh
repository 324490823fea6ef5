#!/bin/bash
# `vma top`: as text for scripts, and in a terminal.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	talker.py                 echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

probe=$(netns_find_probe) || exit 1
vma=$(find_program tools/vma/vma) || exit 1
dir=$netns_tmp/pages
mkdir $dir
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"
vma_env=(VMA_TRACELEVEL=warn VMA_STATS_SHMEM_DIR=$dir VMA_STATS_LATENCY=1)
mkfifo $netns_tmp/fifo
netns_spawn $netns_tmp/talk c "$lib" python3 tests/scenario/stats/talker.py $netns_tmp/fifo 7100 ||
	{ cat $netns_tmp/talk && die "no talker"; }
pid=$spawned
exec {fifo}> $netns_tmp/fifo

# top OPTION...: its text is in $netns_tmp/top.
top() {
	timeout 30 "$vma" top --once -k $dir "$@" > $netns_tmp/top 2>&1
}

has() {
	grep -qE "$1" $netns_tmp/top && return
	cat $netns_tmp/top
	return 1
}

check "a process that does nothing" top $pid
check "it is shown" has "^ *$pid python3 +[0-9]+ sockets, [0-9]+ accelerated"
check "its sockets" has "^ *$pid python3 +[0-9]+ udp +10.9.0.1:[0-9]+ +10.9.0.2:7000 +0 +0 +0 +0 +0 +0 +- accelerated over v0 on ring"
check "a socket of the kernel" has "^ *$pid python3 .* 10.9.0.1:7103 .* kernel: "
check "its ring" has "^ *$pid python3 +[0-9]+ v0 "

# Without an end: datagrams there and back.
while echo "udp 200"; do :; done >&$fifo 2> /dev/null &
busy=$!
check "a process that sends" top $pid
check "its rates, and latencies" has \
	"^ *$pid python3 +[0-9]+ udp +10.9.0.1:[0-9]+ +10.9.0.2:7000( +[1-9][0-9.kM]*){4} .* [0-9]+\.[0-9] accelerated"
check "by order of bytes" top -o bytes
check "a wrong order" eval '! top -o size'
check "a wrong interval" eval '! top -d nan'
check "a process that is none" eval '! top 4194304'
check "and why" has "process 4194304"
check "no process id" eval '! top x'

check "in a terminal" timeout 200 python3 tests/scenario/stats/top_check.py $pid "$vma" top -d 0.5 -k $dir
kill $busy
check "a process that was killed is not shown" eval 'kill -KILL $pid; await 30 eval "top; ! grep -q \"^ *$pid \" $netns_tmp/top"'
verdict
