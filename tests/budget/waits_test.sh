#!/bin/bash
# The cost of calls that the library only forwards, and of waiting for many sockets: instructions of
# read() and write() on a kernel descriptor, and of epoll_wait() when one of many sockets has an
# event, counted one by one and compared with waits.txt. The cheapest call counts: in others the
# kernel or the internal thread does additional work.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	counted calls             echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_take_counter

sets=(0 99 9999) # idle sockets
calls=15

steps=$(find_program tools/bench/steps) || exit 1
program=$(find_program tools/bench/waits_bench) || exit 1
probe=$(netns_find_probe) || exit 1
[[ -n $lib ]] || die "no library to count in"
ulimit -Hn 30000 2> /dev/null
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv || die "no server"

# count_in IDLE: the internal thread does not poll the ring. Counting takes so long that a call
# which may sleep does sleep.
count_in() {
	(netns_exec c "" 0-1023 timeout -s KILL 200 "$steps" env LD_PRELOAD="$lib" "${vma_env[@]}" \
		VMA_PROGRESS_ENGINE_INTERVAL=0 VMA_THREAD_MODE=1 VMA_SELECT_POLL=-1 \
		"$program" steps $netns_server 7000 $1 $calls > $netns_tmp/counts.$1 2>&1 < /dev/null)
}

# count CALL IDLE: instructions; nothing without a figure.
count() {
	[[ $(grep -E "^call=$1 instructions=" $netns_tmp/counts.$2) =~ \ fewest=([0-9]+) ]] &&
		echo "${BASH_REMATCH[1]}"
}

is_at_most() {
	local have

	have=$(count $1 $2)
	[[ -n $have && -n $3 ]] && ((have <= $3))
}

budget() {
	awk -v name="$1" '$1 == name { print $2 }' tests/budget/waits.txt
}

most=$(budget epoll_wait)
for idle in "${sets[@]}"; do
	count_in $idle || cat $netns_tmp/counts.$idle
	check "epoll_wait, $((idle + 1)) sockets: $(count epoll_wait $idle) instructions, budget $most" \
		is_at_most epoll_wait $idle "$most"
done
for call in read write; do
	most=$(budget $call)
	plain=$(count plain_$call 0)
	check "$call: $(count $call 0) instructions, the C library's $plain, budget $most more" \
		is_at_most $call 0 $((plain + most))
done
verdict
