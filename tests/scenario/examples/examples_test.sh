#!/bin/bash
# The programs of examples/ are under 200 lines, and do what docs/api.md says: each step receives the
# whole feed and the kernel nothing of it; the gateway's orders pass the kernel by; each prints what a
# message has cost; and each works without the library.
#
#	c  v0 10.9.0.1, the example ---------- v0 10.9.0.2  s
#	                                       the feed; an exchange: echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

feed=$(find_program examples/feed) || exit 1
gateway=$(find_program examples/gateway) || exit 1
probe=$(netns_find_probe) || exit 1
log=$netns_tmp/log
messages=3000
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve tcp:7000:recv || die "no exchange"

# counter NAME: of the kernel of c.
counter() {
	netns_counters c "$1"
}

# feeds LIB STEP: the handler runs; $kernel_in: datagrams that the kernel of c received.
feeds() {
	local before handler publisher rc

	before=$(counter UdpInDatagrams)
	: > $log # "ready" of the last one
	netns_exec c "$1" 0-1023 timeout 60 "$feed" "$2" 239.1.1.1 7100 10.9.0.1 $messages >> $log 2>&1 &
	handler=$!
	await 30 grep -qx ready $log || return 1
	netns_exec s "" 0-1023 python3 tests/scenario/examples/publish.py 239.1.1.1 7100 10.9.0.2 $messages &
	publisher=$!
	wait $handler
	rc=$?
	wait $publisher || rc=1
	kernel_in=$(($(counter UdpInDatagrams) - before))
	return $rc
}

# trades LIB WAY: the gateway runs; $kernel_in: segments that the kernel of c received.
trades() {
	local before rc

	before=$(counter TcpInSegs)
	netns_run c "$1" timeout 60 "$gateway" "$2" $netns_server 7000 50 3 > $log 2>&1
	rc=$?
	kernel_in=$(($(counter TcpInSegs) - before))
	return $rc
}

says() {
	grep -qE "$1" $log || { cat $log && false; }
}

for example in examples/*.c; do
	check "$example is short" test "$(wc -l < $example)" -lt 200
done
for step in socket zcopy callback; do
	check "feed, $step" feeds "$lib" $step
	check "... nothing is lost" says '^lost: 0$'
	check "... the kernel receives nothing" test $kernel_in = 0
	check "... a message has its price" says "^$step: $messages messages, [1-9][0-9]* ns each, (instructions unknown|[1-9][0-9]* instructions)"
	grep "^$step:" $log
done
vma_env+=(VMA_SOCKETXTREME=1)
check "feed, xtreme" feeds "$lib" xtreme
check "... nothing is lost" says '^lost: 0$'
check "... the kernel receives nothing" test $kernel_in = 0
check "... a message has its price" says "^xtreme: $messages messages, [1-9][0-9]* ns each, "
grep "^xtreme:" $log
unset "vma_env[-1]"
for way in cold warm room; do
	check "gateway, $way" trades "$lib" $way
	check "... the kernel receives nothing" test $kernel_in = 0
	check "... an order has its price" says "^$way: 50 messages, [1-9][0-9]* ns each, "
	grep "^$way:" $log
done
for step in socket zcopy callback xtreme; do
	check "feed, $step, without the library" feeds "" $step
	check "... nothing is lost" says '^lost: 0$'
	check "... the kernel receives it" test $kernel_in -ge $messages
done
for way in warm room; do
	check "gateway, $way, without the library" trades "" $way
	check "... an order has its price" says "^$way: 50 messages, [1-9][0-9]* ns each, "
done
verdict
