#!/bin/bash
# A program of the extra API: with the library its messages pass the kernel by, in each way of
# receiving; a rule that it adds takes effect; without the library its own fall-back works.
#
#	c  v0 10.9.0.1, the program ---------- v0 10.9.0.2  s
#	                                       echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

feed=$(find_program tests/scenario/extra/feed) || exit 1
. tests/scenario/extra/echoes.sh

# feeds LIB PROTO WAY
feeds() {
	counted "$2" "$1" "$feed" "$2" $netns_server 7000 "$3" 200
}

declare -A header=([udp]="42 0800 17" [tcp]="(54|66) 0800 6")
for way in "udp plain" "udp zcopy" "udp callback" "udp early" "tcp plain" "tcp zcopy" "tcp callback" "tcp early"; do
	check "$way" feeds "$lib" $way
	check "... the library is there" says '^api here'
	check "... each message is right" says '^bad 0'
	check "... the kernel receives none" test $kernel_in = 0
	check "... the header is of IPv4 and ${way% *}" says "^header ${header[${way% *}]}"
	check "... the dump is in the log" says 'Fd number *: [0-9]+'
	[[ $way != "tcp plain" ]] ||
		check "... what it does not do is logged once" test "$(grep -c 'VMA WARNING: SO_VMA_SHUTDOWN_RX' $log)" = 1
done
check "a rule for the kernel" feeds "$lib" udp rule
check "... each datagram is right" says '^bad 0'
check "... the kernel receives all of them" test $kernel_in = 200
for way in "udp zcopy" "udp callback" "tcp zcopy" "tcp callback"; do
	check "without the library, $way" feeds "" $way
	check "... it is not there" says '^api none'
	check "... each datagram is right" says '^bad 0'
done

# A connection within the host: each message is where the server has put it.
vma_env+=(VMA_LOCAL=1)
netns_spawn $netns_tmp/here c "$lib" "$probe" serve tcp:7100:recv || die "no local server"
within_the_host() {
	netns_run c "$lib" "$feed" tcp $netns_client 7100 "$1" 200 > $log 2>&1
}
for way in callback early zcopy; do
	check "$way of a local connection" within_the_host $way
	check "... each message is right" says '^bad 0'
done
verdict
