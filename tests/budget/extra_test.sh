#!/bin/bash
# The cost of a message of 100 bytes in each way of receiving and sending it: instructions,
# counted one by one and compared with extra.txt. The result does not depend on the load of the
# machine: an answer is one segment, and none is late for the call that takes it (extra.c).
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	counted calls             echo, by the kernel
#	                          lo: counted calls, through shared memory
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
without_bare_acks s
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"

# The internal thread does not poll the ring: the calls are uncontended.
# measure NAMESPACE XTREME WORD...: prints what the program says.
measure() {
	netns_exec $1 "" 0-1023 timeout -s KILL 200 "$steps" env LD_PRELOAD="$lib" "${vma_env[@]}" \
		VMA_PROGRESS_ENGINE_INTERVAL=0 VMA_THREAD_MODE=1 VMA_SOCKETXTREME=$2 \
		"$program" "${@:3}" 2>&1 < /dev/null
}

# count NAMESPACE WORD...: adds the counts of both programs to a file.
count() {
	local xtreme

	for xtreme in 0 1; do
		(measure $1 $xtreme "$2" ${3:+$3} 8 ${4:+$4}) > $netns_tmp/now || return
		cat $netns_tmp/now >> $netns_tmp/counts
	done
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

vma_env+=(VMA_LOCAL=0)
check "the calls are counted" count c $netns_server 7000 || cat $netns_tmp/now
vma_env+=(VMA_LOCAL=1)
check "the same with VMA_LOCAL=1" count c $netns_server 7000 beside || cat $netns_tmp/now
check "... of a socket that local senders reach" count c $netns_server 7000 bound || cat $netns_tmp/now
check "within the host" count s local || cat $netns_tmp/now
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
check "... of recv()" at_most_percent tcp_callback_10 60 tcp_recv_10
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
check "with VMA_LOCAL=1: recv() of a datagram by the wire costs at most 101 %" at_most_percent beside_udp_recv_1 101 udp_recv_1
check "... of ten" at_most_percent beside_udp_recv_10 101 udp_recv_10
check "... with epoll_wait()" at_most_percent beside_udp_epoll_1 101 udp_epoll_1
check "... send()" at_most_percent beside_udp_send_1 101 udp_send_1
check "... of a socket that local senders reach, 110 %" at_most_percent bound_udp_recv_1 110 udp_recv_1
check "... of ten" at_most_percent bound_udp_recv_10 110 udp_recv_10
check "within the host: a callback costs at most 18 % of epoll_wait() and recv()" \
	at_most_percent local_udp_callback_10 18 local_udp_epoll_10
check "... of a connection 17 %" at_most_percent local_tcp_callback_10 17 local_tcp_epoll_10
check "... socketxtreme 19 %" at_most_percent local_udp_xtreme_10 19 local_udp_epoll_10
check "... of a connection 13 %" at_most_percent local_tcp_xtreme_10 13 local_tcp_epoll_10
check "... a callback at most 150 % of recv()" at_most_percent local_udp_callback_10 150 local_udp_recv_10
check "... of a connection 88 %" at_most_percent local_tcp_callback_10 88 local_tcp_recv_10
check "... socketxtreme 160 %" at_most_percent local_udp_xtreme_10 160 local_udp_recv_10
check "... of a connection 65 %" at_most_percent local_tcp_xtreme_10 65 local_tcp_recv_10

# is_flat NAME: the same price for 14 bytes, 1000, and 8000.
is_flat() {
	echo "     $(have $1_14), $(have $1_1000), $(have $1_8000)"
	[[ -n $(have $1_14) && $(have $1_1000) == "$(have $1_14)" && $(have $1_8000) == "$(have $1_14)" ]]
}
check "within the host: 8000 bytes are received at the price of 14" is_flat local_udp_zcopy
check "... of a connection" is_flat local_tcp_zcopy
printf '\nmeasured:\n'
sed -nE 's/^call=([a-z]+_[a-z0-9_]+) instructions=.*/\1/p' $netns_tmp/counts | sort -u | while read -r call; do
	printf '%s\t%s\n' $call "$(have $call)"
done
say_changes tests/budget/extra.txt
verdict
