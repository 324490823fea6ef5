#!/bin/bash
# A receiver that waits in any way uses no processor time when its poll budget is spent, and wakes
# up when a message arrives.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	asks, by the kernel       one thread per way to wait
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
netns_pair ""
vma_env+=(VMA_LOCAL=1) # processes of the host connect to a second socket

answered() {
	netns_run c "" "$probe" ask "$@" > $netns_tmp/ask
	grep -q answers $netns_tmp/ask || { cat $netns_tmp/ask; return 1; }
}

check "the receivers start" netns_spawn $netns_tmp/serve s "$lib" "$probe" serve \
	udp:7001:recv udp:7002:poll udp:7003:select udp:7004:epoll \
	tcp:7001:recv tcp:7002:poll tcp:7003:select tcp:7004:epoll tcp:7005:recv tcp:7006:epoll
server=$spawned
check "an idle connection" netns_spawn $netns_tmp/hold c "" "$probe" hold $netns_server 7005
check "another" netns_spawn $netns_tmp/hold2 c "" "$probe" hold $netns_server 7006
check "idle from the start" netns_rests $server
before=$(netns_counters s UdpInDatagrams TcpInSegs)
for port in 7001 7002 7003 7004; do
	check "udp $port wakes up" answered udp $netns_server $port 3
	check "tcp $port wakes up" answered tcp $netns_server $port 3
done
[[ -z $lib ]] || check "bypasses the kernel" test "$before" = "$(netns_counters s UdpInDatagrams TcpInSegs)"
check "idle again" netns_rests $server

# Connects to each socket of the library that has an address, while the library has no free
# descriptor, and closes.
connect_to_all() {
	in_ns s python3 - << 'END'
import socket
for line in open("/proc/net/unix"):
    field = line.split()
    if len(field) > 7 and field[3] == "00010000" and "libvma" in field[7]:
        s = socket.socket(socket.AF_UNIX, int(field[4], 16))
        s.connect(field[7].replace("@", "\0", 1))
        print(field[7])
END
}

# first_free PID: the limit that leaves it no free descriptor.
first_free() {
	local fd=0

	while [[ -e /proc/$1/fd/$fd ]]; do
		((fd++))
	done
	echo $fd
}

if [[ -n $lib ]]; then
	prlimit --pid $server --nofile="$(first_free $server)":1024
	connect_to_all > $netns_tmp/connected
	check "another process connects" grep -q libvma/xdp- $netns_tmp/connected
	NETNS_WAKEUPS=20 check "idle without descriptors" netns_rests $server
	prlimit --pid $server --nofile=1024:1024
	check "a new process starts" netns_spawn $netns_tmp/newcomer s "$lib" "$probe" serve udp:7101:recv
	before=$(netns_counters s UdpInDatagrams TcpInSegs)
	check "and is asked" answered udp $netns_server 7101 3
	check "it bypasses the kernel, as a member of the group" \
		test "$before" = "$(netns_counters s UdpInDatagrams TcpInSegs)"
fi
# Is the first thread of a process gone, and are others left?
first_is_gone() {
	[[ $(sed 's/.*) //' "/proc/$1/stat") == Z* && $(ls "/proc/$1/task" | wc -l) -gt 1 ]]
}

check "still alive" kill -0 $server
check "a server starts whose first thread ends" netns_spawn $netns_tmp/leaves s "$lib" "$probe" serve \
	udp:7201:leave udp:7202:recv
check "... it answers" answered udp $netns_server 7201 1
check "... it is gone" await 30 first_is_gone $spawned
check "... another one answers" answered udp $netns_server 7202 3
# A thread of ours looks ten times a second whether it is the last.
NETNS_WAKEUPS=12 check "... and rests" netns_rests "$(ls "/proc/$spawned/task" | tail -n 1)"
[[ ! -s $netns_tmp/serve ]] || grep -v '^ready' $netns_tmp/serve
verdict
