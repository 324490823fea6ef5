#!/bin/bash
# The verdict of each socket, as vma_stats shows it, names the rule that decided, by file and line.
#
#	c  v0 10.9.0.1 ---------------------- v0 10.9.0.2  s
#	   j0 10.9.1.1 ---------------------- j0 10.9.1.2
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

probe=$(netns_find_probe) || exit 1
vma=$(find_program tools/vma/vma) || exit 1
conf=$netns_tmp/libvma.conf
log=$netns_tmp/log
dir=$netns_tmp/pages
mkdir $dir
netns_pair ""
ip link add j0 netns c type veth peer name j0 netns s
netns_up c j0 10.9.1.1
netns_up s j0 10.9.1.2
await 30 netns_is_up c j0 && await 30 netns_is_up s j0 || die "the link stays down"
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"
vma_env=(VMA_TRACELEVEL=debug "VMA_CONFIG_FILE=$conf" VMA_STATS_SHMEM_DIR=$dir VMA_LOCAL=1)

# start [FILE]: use.py, with its rules; ${fd[@]} are its descriptors, in the order of use.py.
start() {
	mkfifo $netns_tmp/fifo
	netns_exec c "$lib" 0-1023 python3 tests/scenario/rules/use.py reasons > $log 2>&1 < $netns_tmp/fifo &
	pid=$!
	exec {input}> $netns_tmp/fifo
	rm $netns_tmp/fifo
	await 30 grep -q '^ready' $log || { cat $log && die "no sockets"; }
	read -ra fd < <(sed -n 's/^ready //p' $log)
}

stop() {
	exec {input}>&-
	wait $pid
}

# verdict_is FD VERDICT
verdict_is() {
	local said

	said=$("$vma" stat -k $dir -p $pid -v 6 -s "$1" | grep -E "^$1 " | grep -oE '(kernel|accelerated).*')
	[[ $said == $2 ]] && return
	echo "     $said"
	return 1
}

cat > $conf <<- END
	# line 1
	use os udp_receiver 10.9.0.1:6000
	use vma udp_receiver 10.9.0.1:6001
	use os tcp_server 10.9.0.1:6002
	must tcp_server *:6003
	use vma tcp_client 10.9.0.2:7000:*:*
	use os udp_connect 10.9.0.2:7000:*:*
	use os udp_sender 10.9.0.2:7009
	interface deny j*
END
start
check "a datagram socket that the kernel receives for" \
	verdict_is ${fd[0]} "kernel: what it receives, $conf:2 says os"
check "... that a rule accelerates" verdict_is ${fd[1]} "accelerated over v0 on ring ?, $conf:3 says vma"
check "a listener of the kernel" verdict_is ${fd[2]} "kernel: $conf:4 says os"
check "... that must be accelerated" verdict_is ${fd[3]} "accelerated over v0 on ring ?, $conf:5 says must"
check "a connection" verdict_is ${fd[4]} "accelerated over v0 on ring ?, $conf:6 says vma"
check "a connected datagram socket" verdict_is ${fd[5]} "kernel: $conf:7 says os"
check "a sender" verdict_is ${fd[6]} "kernel: what it sends, $conf:8 says os"
check "a denied interface" verdict_is ${fd[7]} "kernel: $conf:9 says deny"
check "no rule" verdict_is ${fd[8]} "accelerated over v0 on ring ?"
netns_exec s "" 0-1023 "$probe" ask tcp 10.9.0.1 6003 1 > /dev/null &
await 30 grep -q '^accepted' $log || die "nothing accepted"
check "an accepted connection has the rule of its listener" \
	verdict_is "$(sed -n 's/^accepted //p' $log)" "accelerated over v0 on ring ?, $conf:5 says must"
check "the log, too" grep -q "fd ${fd[2]}: left to the kernel: $conf:4 says os" $log
check "JSON" eval '"$vma" stat -k $dir -p $pid --json | grep -qF "\"verdict\":\"kernel: $conf:4 says os\""'
check "vma top" eval '"$vma" top --once -d 1 -k $dir $pid | grep -qF "$conf:6 says vma"'
stop

# A name as long as the system has them: the end of it, and the line.
long=$netns_tmp/$(printf 'd%.0s' {1..200})
mkdir $long
mv $conf $long/libvma.conf
vma_env=(VMA_TRACELEVEL=debug "VMA_CONFIG_FILE=$long/libvma.conf" VMA_STATS_SHMEM_DIR=$dir VMA_LOCAL=1)
start
check "a long name" verdict_is ${fd[2]} "kernel: d*ddd/libvma.conf:4 says os"
stop

# Nothing is accelerated: the process is found nevertheless, and says why.
vma_env=(VMA_TRACELEVEL=warn VMA_CONFIG_FILE=/dev/null VMA_STATS_SHMEM_DIR=$dir VMA_LOCAL=1)
around=(setpriv --bounding-set=-net_admin,-net_raw,-bpf,-sys_admin)
start
check "without a capability" verdict_is ${fd[4]} "kernel: the interface could not be taken"
check "... what it receives" verdict_is ${fd[0]} "kernel: what it receives, the interface could not be taken"
stop
verdict
