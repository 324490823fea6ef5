#!/bin/bash
# Signal handlers jump out of calls in which a receive callback runs, every 150 us: callbacks go on, also
# in another thread; asleep or not, of datagrams and of a connection.
#
#	c  v0 10.9.0.1, the program ---------- v0 10.9.0.2  s
#	                                       echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

storm=$(find_program tests/scenario/extra/storm) || exit 1
. tests/scenario/extra/echoes.sh

# AddressSanitizer must leave locals on the stack, where siglongjmp() looks for cleanup records.
[[ -z ${ASAN_OPTIONS:-} ]] || export ASAN_OPTIONS=$ASAN_OPTIONS:detect_stack_use_after_return=0

row() {
	check "$2" counted $1 "$lib" timeout 120 "$storm" $1 $netns_server 7000 2000
	check "... handlers jump" says '^jumps [1-9][0-9]{2}'
	check "... callbacks jump" says '^of callbacks [1-9][0-9]{2}'
	check "... nothing is wrong" says '^bad 0$'
	check "... the kernel receives none" test $kernel_in = 0
}
each_way row
verdict
