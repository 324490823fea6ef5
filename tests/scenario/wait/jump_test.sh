#!/bin/bash
# A signal handler jumps out of a thread's first wait, after each of its system calls: no descriptor
# remains open, and the thread can wait again.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	waits                     echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

jump=$(find_program tests/scenario/wait/jump) || exit 1
probe=$(netns_find_probe) || exit 1
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv || die "no server"
# Sleep without polling: this test does not check what comes before the sleep.
vma_env+=(VMA_RX_POLL=0 VMA_SELECT_POLL=0)
for wait in recv poll select epoll; do
	check "$wait" netns_run c "$lib" "$jump" $netns_server 7000 $wait
done
verdict
