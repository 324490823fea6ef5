#!/bin/bash
# kill -9 at any instruction of a call: the peer on the host reads what had arrived, then gets the end within
# 10 ms, and goes on with others; nothing is left.
#
#	s  lo 127.0.0.1           a victim and a survivor: death.c
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

death=$(find_program tests/scenario/local/death) || exit 1
netns_pair ""
export LIB=${SAN_RUNTIME:+$SAN_RUNTIME:}$lib VMA_LOCAL=1 VMA_TRACELEVEL=warn

segments() { in_ns s awk '/^Tcp: [0-9]/ { print $11 }' /proc/net/snmp; }
dies() {
	in_ns s timeout -s KILL 200 "$death" "$@" > $netns_tmp/said 2>&1
	tail -n 3 $netns_tmp/said
	tail -n 1 $netns_tmp/said | grep -q 'ok$'
}

for call in send:100 recv:100 shutdown:50 close:50 accept:50 connect:20; do
	before=$(segments)
	check "killed at ${call#*:} instructions of ${call%:*}()" dies ${call%:*} ${call#*:}
	check "... through shared memory" test "$(segments)" == "$before"
done
for call in sendto recvfrom; do
	check "killed at 50 instructions of $call()" dies $call 50
done
check "no entry stays" test "$(find /run/libvma/local*-* -type f 2> /dev/null | wc -l)" -le 8
verdict
