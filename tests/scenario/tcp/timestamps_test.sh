#!/bin/bash
# VMA_TCP_TIMESTAMP_OPTION decides whether connections use timestamps (RFC 7323), in both roles,
# with a kernel that supports them and one that does not.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	the library               the kernel: what it sees of the connection
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
netns_pair ""
port=7100

kernel() {
	in_ns "$1" sh -c "echo $2 > /proc/sys/net/ipv4/tcp_timestamps"
}

# The kernel in s deducts 12 bytes per segment for timestamps.
has_timestamps() {
	in_ns s ss -tinH state established "$1 = :$2" | grep -qw mss:1448
}

# is WANTED SIDE PORT: SIDE is "sport" for a connection to the kernel, "dport" for one from it.
is() {
	if [[ $1 == yes ]]; then
		has_timestamps "$2" "$3"
	else
		! has_timestamps "$2" "$3" && [[ $(in_ns s ss -tnH state established "$2 = :$3") ]]
	fi
}

# row VALUE WANTED WHAT
row() {
	local client server

	vma_env=(VMA_TRACELEVEL=warn VMA_TCP_TIMESTAMP_OPTION="$1")
	port=$((port + 1)) # the kernel has connections whose client was killed
	netns_spawn $netns_tmp/serve s "" "$probe" serve tcp:$port:recv || die "no server"
	server=$spawned
	netns_spawn $netns_tmp/hold c "$lib" "$probe" hold $netns_server $port || die "no client"
	client=$spawned
	check "$1: $3: we connect: $2" is "$2" sport $port
	netns_kill $client $server
	netns_spawn $netns_tmp/wait c "$lib" "$probe" serve tcp:7001:recv || die "no server"
	server=$spawned
	netns_spawn $netns_tmp/hold s "" "$probe" hold $netns_client 7001 || die "no client"
	client=$spawned
	check "$1: $3: we accept: $2" is "$2" dport 7001
	netns_kill $client $server
}

row 0 no "the peer has them"
row 1 yes "the peer has them"
row 2 yes "so has our kernel"
kernel c 0
row 2 no "our kernel has not"
row 1 yes "our kernel has not"
kernel s 0
row 1 no "the peer has not"
verdict
