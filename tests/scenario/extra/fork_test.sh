#!/bin/bash
# fork() in a receive callback: the child returns from it and from the call, and closes the socket; the
# parent goes on; asleep or not, of datagrams and of a connection.
#
#	c  v0 10.9.0.1, the program ---------- v0 10.9.0.2  s
#	                                       echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

forks=$(find_program tests/scenario/extra/forks) || exit 1
. tests/scenario/extra/echoes.sh

row() {
	check "$2" counted $1 "$lib" timeout 120 "$forks" $1 $netns_server 7000 24
	check "... 8 children" says '^children 8$'
	check "... nothing is wrong" says '^bad 0$'
}
each_way row
verdict
