#!/bin/bash
# Signal handlers that send and receive, threads that are cancelled in a call, and threads that exit
# while they have a ring.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	does that                 echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
threads=$(find_program tests/scenario/wait/threads) || exit 1
log=$netns_tmp/log
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"

# count WORDS: lines of the library's log.
count() {
	grep -c "$1" $log
}

all_closed() {
	(($(count 'ring [0-9]* on v0 closed') == $(count 'ring [0-9]* on v0 opened')))
}

# Sleep at once; after the poll budget; never.
for polls in 0 1000 -1; do
	for mode in 1 2 3; do
		vma_env=(VMA_TRACELEVEL=warn VMA_RX_POLL=$polls VMA_THREAD_MODE=$mode)
		check "handlers, VMA_RX_POLL=$polls, mode $mode" netns_run c "$lib" "$threads" talk $netns_server 7000
	done
	vma_env=(VMA_TRACELEVEL=warn VMA_RX_POLL=$polls)
	check "cancellation, VMA_RX_POLL=$polls" netns_run c "$lib" "$threads" cancel $netns_server 7000
done

# A ring for each thread; the sockets of exited threads move to the remaining one.
vma_env=(VMA_TRACELEVEL=debug VMA_LOG_FILE=$log VMA_RING_ALLOCATION_LOGIC_RX=20 VMA_RING_ALLOCATION_LOGIC_TX=20)
check "threads exit" netns_spawn $netns_tmp/exit c "$lib" "$threads" exit $netns_server 7000 20
check "every echo arrived" grep -q '^0 echoes failed' $netns_tmp/exit
if [[ -n $lib ]]; then
	check "each had a ring" test "$(count 'ring [0-9]* on v0 opened')" -ge 20
	check "all rings are closed" await 30 all_closed
fi
kill $spawned
verdict
