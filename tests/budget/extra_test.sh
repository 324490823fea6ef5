#!/bin/bash
# The cost of a message of 100 bytes in each way of receiving and sending it: instructions,
# counted one by one and compared with extra.txt. The result does not depend on the load of the
# machine.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	counted calls             echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
. tests/budget/compare.sh

steps=$(find_program tools/bench/steps) || exit 1
program=$(find_program tests/budget/extra) || exit 1
probe=$(netns_find_probe) || exit 1
[[ -n $lib ]] || die "no library to count in"
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"

# The internal thread does not poll the ring: the calls are uncontended. Acknowledgements do not wait
# for a timer.
# measure VARIABLE=VALUE FILE
measure() {
	(netns_exec c "" 0-1023 timeout -s KILL 200 "$steps" env LD_PRELOAD="$lib" "${vma_env[@]}" \
		VMA_PROGRESS_ENGINE_INTERVAL=0 VMA_THREAD_MODE=1 "$1" \
		"$program" $netns_server 7000 8 > "$2" 2>&1 < /dev/null)
}

# have NAME: instructions per message; empty without a count. The fewest: the call that found all there,
# in as few segments as possible.
have() {
	[[ $(grep -E "^call=$1 instructions=" $netns_tmp/counts) =~ fewest=([0-9]+) ]] || return
	local n=${BASH_REMATCH[1]} messages=1

	[[ $1 != *_10 ]] || messages=10
	echo $((n / messages))
}

budget() {
	awk -v name="$1" '$1 == name { print $2 }' tests/budget/extra.txt
}

check "the calls are counted" measure VMA_SOCKETXTREME=0 $netns_tmp/counts || cat $netns_tmp/counts
check "with socketxtreme" measure VMA_SOCKETXTREME=1 $netns_tmp/with || cat $netns_tmp/with
cat $netns_tmp/with >> $netns_tmp/counts
for call in $(awk '/^[a-z]/ { print $1 }' tests/budget/extra.txt); do
	if is_of_clang "$lib"; then
		echo "     $call: $(have $call) instructions; the budget is gcc's"
		continue
	fi
	check "$call: $(have $call) instructions a message, budget $(budget $call)" \
		is_within "$(have $call)" "$(budget $call)"
done

# at_most_percent CALL PERCENT OF: none of them is empty.
at_most_percent() {
	[[ -n $(have $1) && -n $(have $3) ]] && (($(have $1) * 100 <= $(have $3) * $2))
}
check "a callback costs at most 60 % of epoll_wait() and recv()" at_most_percent udp_callback_10 60 udp_epoll_10
check "... also of a connection" at_most_percent tcp_callback_10 60 tcp_epoll_10
check "... in recv(), of recv()" at_most_percent tcp_called_10 60 tcp_recv_10
check "... of a datagram socket, of recv()" at_most_percent udp_callback_10 60 udp_recv_10
check "... in recv(), of recv()" at_most_percent udp_called_10 60 udp_recv_10
check "many packets of a connection cost at most 60 % of recv()" at_most_percent tcp_zcopy_10 60 tcp_recv_10
check "a batch that is received costs at most 40 % of epoll_wait() and recv()" at_most_percent udp_batch_10 40 udp_epoll_10
check "a batch that is sent costs at most 88 % of send()" at_most_percent udp_out_10 88 udp_send_1
check "... of a connection 36 %" at_most_percent tcp_out_10 36 tcp_send_1
check "socketxtreme costs at most 60 % of epoll_wait() and recv()" at_most_percent udp_xtreme_10 60 udp_epoll_10
check "... of a connection, of recv()" at_most_percent tcp_xtreme_10 60 tcp_recv_10
check "... of a datagram socket, of recv()" at_most_percent udp_xtreme_10 60 udp_recv_10
printf '\nmeasured:\n'
sed -nE 's/^call=([a-z]+_[a-z0-9_]+) instructions=.*/\1/p' $netns_tmp/counts | sort -u | while read -r call; do
	printf '%s\t%s\n' $call "$(have $call)"
done
say_changes tests/budget/extra.txt
verdict
