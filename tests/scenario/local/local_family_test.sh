#!/bin/bash
# Sockets of both address families at one port: who gets a connection, or a datagram, is who would get it
# from the kernel, and shared memory takes it there if both have the library.
#
#	s  lo 127.0.0.1 ::1 fd00:9::1          servers and clients
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

needs /usr/bin/python3
netns_needs_lib
netns_new s
netns_ip6 s lo fd00:9::1/128
port=7500
export VMA_LOCAL=1
program() { echo /usr/bin/python3 tests/scenario/local/local_family.py "$@"; }

# Segments and datagrams that the kernel has sent.
kernel_sent() {
	local v4 v6

	read -ra v4 < <(netns_counters s TcpOutSegs UdpOutDatagrams)
	v6=$(in_ns s awk '$1 == "Udp6OutDatagrams" { print $2 }' /proc/net/snmp6)
	echo $((v4[0] + v4[1] + v6))
}

# serves LIB NAME SOCKET...
servers=()
serves() {
	netns_spawn $netns_tmp/server.$2 s "$1" $(program serve $port "${@:2}") || die "no server: $(< $netns_tmp/server.$2)"
	servers+=("$spawned")
}
end_all() {
	local one

	for one in "${servers[@]}"; do
		netns_kill "$one"
	done
	servers=()
	port=$((port + 1))
}

# answers WHAT SOCKET...: a client with the library is answered as one without it.
answers() {
	local kernels

	before=$(kernel_sent)
	ours=$(netns_run s "$lib" $(program ask $port "${@:2}"))
	sent=$(($(kernel_sent) - before))
	kernels=$(netns_run s "" $(program ask $port "${@:2}"))
	check "$1: as by the kernel" test "$ours" == "$kernels" || printf '%s\n--\n%s\n' "$ours" "$kernels"
}
by_memory() { check "... through shared memory" test "$sent" == 0; }
# says NAME...: these have answered, in this order.
says() { check "... $*" test "$(awk '{ print $2 }' <<< "$ours" | tr '\n' ' ')" == "$* "; }

# ---- one socket for both families

serves "$lib" dual tcp,:: udp,::
answers "a dual-stack server" {tcp,udp},{127.0.0.1,127.0.0.2,::1,::ffff:127.0.0.1,fd00:9::1}
by_memory
end_all

serves "$lib" mapped {tcp,udp},::ffff:127.0.0.1
answers "a server at a mapped address" {tcp,udp},{127.0.0.1,::ffff:127.0.0.1}
by_memory
end_all

# ---- two sockets at one port

serves "$lib" four {tcp,udp},0.0.0.0
serves "$lib" six {tcp,udp},only,::
answers "0.0.0.0, and :: with IPV6_V6ONLY" {tcp,udp},{127.0.0.1,::ffff:127.0.0.1,::1}
by_memory
says four four six four four six
end_all

serves "" plain {tcp,udp},only,::
serves "$lib" four {tcp,udp},0.0.0.0
answers ":: of a server without the library" {tcp,udp},::1
says plain plain
answers "... and 0.0.0.0 of one that has it" {tcp,udp},{127.0.0.1,::ffff:127.0.0.1}
by_memory
says four four four four
end_all

serves "" plain {tcp,udp},127.0.0.1
serves "$lib" six {tcp,udp},::1
answers "127.0.0.1 of a server without the library" {tcp,udp},127.0.0.1
says plain plain
answers "... and ::1 of one that has it" {tcp,udp},::1
by_memory
says six six
end_all

# ---- the kernel chooses among datagram sockets that share the port

serves "$lib" dual udp,addr,::
serves "" plain udp,addr,::1 udp,addr,127.0.0.1
answers "what is sent to an address of a socket without the library" udp,{::1,127.0.0.1,::ffff:127.0.0.1}
says plain plain plain
answers "... and to other addresses" udp,{fd00:9::1,127.0.0.2}
by_memory
says dual dual
end_all

serves "$lib" dual udp,addr,::
serves "" plain udp,addr,0.0.0.0
answers "0.0.0.0 of a socket without the library comes before ::" udp,127.0.0.1
says plain
answers "... which has IPv6" udp,::1
by_memory
says dual
end_all

serves "$lib" both udp,addr,:: udp,addr,::1
answers ":: and ::1 of one process" udp,{::1,fd00:9::1,127.0.0.1}
by_memory
end_all
verdict
