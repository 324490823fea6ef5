#!/bin/bash
# A receive callback that throws: the exception leaves the socket call, the packet is dropped, and the
# next ones are seen; asleep or not, of datagrams and of a connection.
#
#	c  v0 10.9.0.1, the program ---------- v0 10.9.0.2  s
#	                                       echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

throws=$(find_program tests/scenario/extra/throws) || exit 1
. tests/scenario/extra/echoes.sh

row() {
	check "$2" counted $1 "$lib" timeout 120 "$throws" $1 $netns_server 7000 120
	check "... each exception arrives" says '^caught 40$'
	check "... nothing is wrong" says '^bad 0$'
	check "... the kernel receives none" test $kernel_in = 0
}
each_way row
vma_env+=(VMA_RX_POLL=0 VMA_SELECT_POLL=0)
check "two calls of one thread are left at once" counted udp "$lib" timeout 120 "$throws" nested $netns_server 7000 20
check "... each time" says '^caught 20$'
check "... nothing is wrong" says '^bad 0$'
verdict
