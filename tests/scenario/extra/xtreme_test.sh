#!/bin/bash
# Socketxtreme: the packets and events of a ring's sockets, taken by polls of its descriptor; beside the
# ordinary calls, with each logic of rings, as a client and as a server.
#
#	c  v0 10.9.0.1, the program ---------- v0 10.9.0.2  s
#	                                       echo, by the kernel; clients of the server
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib
needs /usr/bin/python3

xtreme=$(find_program tests/scenario/extra/xtreme) || exit 1
. tests/scenario/extra/echoes.sh

runs() {
	netns_run c "$lib" "$xtreme" "$1" $netns_server 7000 60 > $log 2>&1 || { tail -30 $log && false; }
}

check "without the parameter" runs none
check "... nothing is wrong" says '^bad 0'
check "... the first call of each is logged" says 'socketxtreme_poll\(\) .* needs VMA_SOCKETXTREME=1'

vma_env+=(VMA_SOCKETXTREME=1)
for proto in udp tcp; do
	check "$proto" runs $proto
	check "... nothing is wrong" says '^bad 0'
done
plain=("${vma_env[@]}")
for logic in 1 10 20 30 31; do
	vma_env=("${plain[@]}" VMA_RING_ALLOCATION_LOGIC_RX=$logic VMA_RING_ALLOCATION_LOGIC_TX=$logic
		VMA_RING_MIGRATION_RATIO_RX=1 VMA_RING_MIGRATION_RATIO_TX=1)
	for proto in udp tcp; do
		check "logic $logic, $proto" runs $proto
		check "... nothing is wrong" says '^bad 0'
	done
done
for mode in 0 2 3; do
	vma_env=("${plain[@]}" VMA_THREAD_MODE=$mode)
	check "thread mode $mode" runs tcp
	check "... nothing is wrong" says '^bad 0'
done

# serves NAMESPACE LIB: the clients there have their echoes, and the server has reported all of it.
serves() {
	local clients=() i

	netns_spawn $log c "$lib" "$xtreme" server $netns_client 7100 0 || return 1
	for i in {1..8}; do
		netns_run "$1" "$2" "$probe" ask tcp $netns_client 7100 20 > $netns_tmp/client.$i 2>&1 &
		clients+=($!)
	done
	for i in "${clients[@]}"; do
		wait $i || { cat $netns_tmp/client.* && return 1; }
	done
	await 60 says '^bad'
}
for logic in 0 10 20; do
	vma_env=("${plain[@]}" VMA_RING_ALLOCATION_LOGIC_RX=$logic VMA_RING_ALLOCATION_LOGIC_TX=$logic)
	check "a server, logic $logic" serves s ""
	check "... nothing is wrong" says '^bad 0'
	check "... one ring has all" says '^rings 1'
done
vma_env=("${plain[@]}" VMA_LOCAL=1)
check "a server of this host" serves c "$lib"
check "... nothing is wrong" says '^bad 0'
check "... by shared memory" says '^rings 2'

# 4 clients of each family; the probe speaks IPv4 only.
cat > $netns_tmp/ask6.py << 'END'
import socket, sys
for _ in range(4):
    s = socket.create_connection((sys.argv[1], 7100), 30)
    s.sendall(b"hello")
    assert s.recv(5, socket.MSG_WAITALL) == b"hello"
    s.close()
END
serves_both() {
	local i

	netns_spawn $log c "$lib" "$xtreme" server6 $netns_client 7100 0 || return 1
	for i in {1..4}; do
		netns_run s "" "$probe" ask tcp $netns_client 7100 20 || return 1
	done
	netns_run s "" /usr/bin/python3 $netns_tmp/ask6.py fd00:9::1 || return 1
	await 60 says '^bad'
}
netns_pair_ip6 ""
vma_env=("${plain[@]}")
check "a server of both families" serves_both
check "... nothing is wrong" says '^bad 0'
vma_env=("${plain[@]}" VMA_LOCAL=1)
netns_spawn $netns_tmp/here c "$lib" "$probe" serve tcp:7200:recv || die "no server"
check "a client of this host" eval 'netns_run c "$lib" "$xtreme" local $netns_client 7200 60 > $log 2>&1'
check "... nothing is wrong" says '^bad 0'
verdict
