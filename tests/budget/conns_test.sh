#!/bin/bash
# The cost of connections: system calls of the functions that open and close them, counted one by
# one and compared with conns.txt. The cheapest call counts: others may have to wake the internal
# thread, or look up a route again, depending on the load of the machine.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	counted calls             the kernel's
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_take_counter

connections=15

steps=$(find_program tools/bench/steps) || exit 1
program=$(find_program tests/budget/conns) || exit 1
probe=$(netns_find_probe) || exit 1
[[ -n $lib ]] || die "no library to count in"
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve tcp:7000:recv || die "no server"

# count_in WHAT IP PORT: the internal thread does not poll the ring.
count_in() {
	(netns_exec c "" 0-1023 timeout -s KILL 200 "$steps" env LD_PRELOAD="$lib" "${vma_env[@]}" \
		VMA_PROGRESS_ENGINE_INTERVAL=0 VMA_THREAD_MODE=1 \
		"$program" "$@" $connections > $netns_tmp/$1 2>&1 < /dev/null)
}

connect_to_it() {
	local i

	await 30 grep -q ready $netns_tmp/accept || return
	for ((i = 0; i < connections; i++)); do
		in_ns s "$probe" ask tcp $netns_client 7001 > /dev/null 2>&1 < /dev/null
	done
}

# count CALL: system calls; nothing without a figure.
count() {
	[[ $(grep -hE "^call=$1 instructions=" $netns_tmp/connect $netns_tmp/accept) =~ \ fewest_syscalls=([0-9]+) ]] &&
		echo "${BASH_REMATCH[1]}"
}

is_at_most() {
	local have

	have=$(count "$1")
	[[ -n $have ]] && ((have <= $2))
}

count_in connect $netns_server 7000 || cat $netns_tmp/connect
connect_to_it &
count_in accept $netns_client 7001 || cat $netns_tmp/accept
wait $!
while read -r call most _; do
	[[ $call != "#" ]] || continue
	check "$call: $(count "$call") system calls, budget $most" is_at_most "$call" "$most"
done < tests/budget/conns.txt
verdict
