#!/bin/bash
# A program of <vma/vma.h>: batches, messages that are written into frames, verdicts and events; over a
# wire, within the host by shared memory, by the kernel, and without the library.
#
#	c  v0 10.9.0.1, the program ---------- v0 10.9.0.2  s
#	       echo, by the library            echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib
needs /usr/bin/python3

ext=$(find_program tests/scenario/extra/ext) || exit 1
. tests/scenario/extra/echoes.sh

# runs LIB PROTO IP
runs() {
	counted "$2" "$1" "$ext" "$2" "$3" 7000 60
}

for mode in 1 0 2; do
	plain=("${vma_env[@]}")
	vma_env+=(VMA_THREAD_MODE=$mode)
	for proto in udp tcp; do
		check "$proto, thread mode $mode" runs "$lib" $proto $netns_server
		check "... the table is there" says '^table here'
		check "... nothing is wrong" says '^bad 0'
		check "... the socket is accelerated" says '^served 1 by ring [0-9]+ of [1-9][0-9]*: accelerated'
		check "... messages are written into frames" says '^frames [1-9][0-9]{2,}'
		check "... another socket is the kernel's, and the reason is told" \
			says '^options 3: an option is set that only the kernel serves'
		check "... the kernel receives none" test $kernel_in = 0
	done
	vma_env=("${plain[@]}")
done
check "... the events of a connection are there" says '^event state: '
plain=("${vma_env[@]}")
for logic in 10 20; do
	vma_env=("${plain[@]}" VMA_RING_ALLOCATION_LOGIC_RX=$logic VMA_RING_ALLOCATION_LOGIC_TX=$logic
		VMA_RING_MIGRATION_RATIO_RX=1 VMA_RING_MIGRATION_RATIO_TX=1)
	for proto in udp tcp; do
		check "logic $logic, $proto" runs "$lib" $proto $netns_server
		check "... nothing is wrong" says '^bad 0'
	done
done
vma_env=("${plain[@]}")

# The probe's datagram socket has SO_REUSEADDR: local datagrams for it come by the kernel.
cat > $netns_tmp/echo.py << 'END'
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 7000))
print("ready", flush=True)
while True:
    data, sender = s.recvfrom(65536)
    s.sendto(data, sender)
END
vma_env+=(VMA_LOCAL=1)
netns_spawn $netns_tmp/local c "$lib" "$probe" serve tcp:7000:recv || die "no local server"
netns_spawn $netns_tmp/local_udp c "$lib" /usr/bin/python3 $netns_tmp/echo.py || die "no local server"
for proto in udp tcp; do
	check "within the host, $proto" runs "$lib" $proto $netns_client
	check "... nothing is wrong" says '^bad 0'
	check "... by shared memory" says '^served 2 '
done

vma_env=("${plain[@]}" VMA_OFFLOADED_SOCKETS=0)
for proto in udp tcp; do
	check "by the kernel, $proto" runs "$lib" $proto $netns_server
	check "... nothing is wrong" says '^bad 0'
	check "... it says so" says '^served 3$'
done
vma_env=("${plain[@]}")
for proto in udp tcp; do
	check "without the library, $proto" runs "" $proto $netns_server
	check "... it is not there" says '^table none'
	check "... nothing is wrong" says '^bad 0'
done
verdict
