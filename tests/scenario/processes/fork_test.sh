#!/bin/bash
# fork, exec, dup, and loops that close all descriptors, while sockets are in use.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	probe fork                echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"
check "fork, exec, dup and close" netns_run c "$lib" "$probe" fork $netns_server 7000
if [[ -n $lib ]]; then
	# Children join the parent's port group: their traffic bypasses the kernel, too.
	seen=$(netns_counters c TcpInSegs TcpOutSegs UdpInDatagrams UdpOutDatagrams)
	check "the kernel saw none of it" test "$seen" == "0 0 0 0"
fi
verdict
