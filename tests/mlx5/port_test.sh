#!/bin/bash
# The mlx5 port on the emulated card: programs with the library at one end of the cable, the kernel
# at the other one.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
. tests/mlx5/card.sh

needs ethtool ping sockperf redis-server redis-benchmark
probe=$(netns_find_probe) || exit 1
card_start
with_card="$lib:$netns_tmp/shim.so"
log=$netns_tmp/log

# on_card COMMAND...: with the library on the card, in the background.
on_card() {
	netns_spawn $log s "$with_card" env "${card_vars[@]}" VMA_TRACELEVEL=${level:-debug} "${knobs[@]}" "$@"
}
knobs=()

# answered PROTO PORT COUNT: the kernel's peer asks.
answered() {
	netns_run c "" "$probe" ask "$1" $netns_server "$2" "$3" > $netns_tmp/ask
	grep -q "^$3 .*answers$\|$3 answers$" $netns_tmp/ask || {
		cat $netns_tmp/ask
		return 1
	}
}

clean() {
	test "$(card_counter violations)" = 0 || {
		grep violation $card_log
		return 1
	}
}

# No resets: the connections that a killed server leaves get them from the kernel, some time later.
kernel_saw() {
	netns_counters s UdpInDatagrams UdpNoPorts TcpPassiveOpens TcpActiveOpens
}

# asks PROTO COUNT: the side with the card asks the kernel's server.
asks() {
	netns_run s "$with_card" env "${card_vars[@]}" "${knobs[@]}" "$probe" ask "$1" $netns_client 8000 "$2" > $netns_tmp/ask
	grep -q "^$2 .*answers$\|$2 answers$" $netns_tmp/ask || {
		cat $netns_tmp/ask
		return 1
	}
}

# perf MESSAGE-SIZE ARG...: sockperf from the kernel's side, the server on the card.
perf() {
	local size=$1 tcp=

	[[ $2 != --tcp ]] || tcp=--tcp
	sockperf_serve $log s "$with_card" 0-1023 -i $netns_server -p 9000 $tcp || return 1
	sockperf_answers 100 $netns_tmp/perf c "" 0-1023 pp -i $netns_server -p 9000 -m "$size" --mps 2000 "${@:2}"
	sockperf_stop
	[[ $(sockperf_value $netns_tmp/perf faults) == 'dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0' ]] &&
		(($(sockperf_value $netns_tmp/perf received) > 0)) && return
	cat $netns_tmp/perf $log
	return 1
}

saw=$(kernel_saw)
check "a server opens the card" on_card "$probe" serve udp:7000:recv udp:7001:epoll udp:7002:poll tcp:7000:recv tcp:7001:epoll tcp:7002:select || cat $log
check "it is the mlx5 port" grep -q 'mlx0: mlx5 port: .* zero-copy' $log
check "200 datagrams are answered" answered udp 7000 200
check "200 answers by a connection" answered tcp 7000 200
check "... to a thread in epoll_wait" answered udp 7001 50
check "... in poll" answered udp 7002 50
check "... a connection, in epoll_wait" answered tcp 7001 50
check "... in select" answered tcp 7002 50
check "the server sleeps when nothing arrives" netns_rests $spawned
check "and wakes up" answered udp 7001 5
check "... for a connection" answered tcp 7001 5
check "the kernel saw none of it" test "$saw" = "$(kernel_saw)"
check "nothing was violated" clean
check "what no rule matches is the kernel's" in_ns c ping -q -c 2 -i 0.2 -W 2 $netns_server
netns_kill $spawned
to_kernel=$(card_counter to_kernel)
answered udp 7000 1 > /dev/null
check "a killed server leaves no rule behind" test "$(card_counter to_kernel)" -gt "$to_kernel"

netns_spawn $log.c c "" "$probe" serve udp:8000:recv tcp:8000:recv
check "a client of datagrams" asks udp 100
check "a client of a connection" asks tcp 100
xtreme=$(find_program tests/scenario/extra/xtreme) || exit 1
# xtremely PROTO: a client of socketxtreme, whose card gets what it polls.
xtremely() {
	netns_run s "$with_card" env "${card_vars[@]}" VMA_SOCKETXTREME=1 "$xtreme" "$1" $netns_client 8000 60 > $netns_tmp/ask &&
		grep -q '^bad 0' $netns_tmp/ask && return
	cat $netns_tmp/ask
	return 1
}
saw=$(kernel_saw)
check "socketxtreme, datagrams" xtremely udp
check "socketxtreme, a connection" xtremely tcp
# Of all lengths: in the request, partly, over the end of the queue.
for knobs in "" VMA_BF=0 VMA_TX_MAX_INLINE=0 VMA_TX_MAX_INLINE=1000 VMA_TX_WRE_BATCHING=1 \
	VMA_RX_WRE_BATCHING=1 VMA_THREAD_MODE=0 "VMA_RX_WRE=256 VMA_TX_WRE=256"; do
	read -ra vma_env <<< "VMA_TRACELEVEL=warn ${card_vars[*]} $knobs"
	check "sockperf ${knobs:-by default}" perf 600 -r 500
done
check "sockperf, long datagrams" perf 1400
check "sockperf, a connection" perf 600 --tcp
vma_env=(VMA_TRACELEVEL=warn)
knobs=()
check "the kernel saw none of it" test "$saw" = "$(kernel_saw)"

# redis: a server with a background save, which forks.
redis() {
	(netns_exec s "$with_card" 0-1023 env "${card_vars[@]}" redis-server --port 6379 --bind $netns_server --save '' --dir $netns_tmp --protected-mode no > $log 2>&1 < /dev/null) &
	redis=$!
	await 30 listens s 6379 || return 1
	netns_run c "" redis-benchmark -h $netns_server -t set,get,lrange_100 -n 2000 -c 10 -q > $netns_tmp/redis &&
		netns_run c "" redis-cli -h $netns_server bgsave > /dev/null &&
		await 30 test -s $netns_tmp/dump.rdb &&
		netns_run c "" redis-benchmark -h $netns_server -t get -n 500 -c 5 -q >> $netns_tmp/redis &&
		[[ $(grep -c 'requests per second' $netns_tmp/redis) -ge 4 ]] && return
	cat $netns_tmp/redis $log
	return 1
}
saw=$(netns_counters s TcpPassiveOpens)
check "redis, by 10 connections, and while it saves" redis
check "the kernel saw none of them" test "$saw" = "$(netns_counters s TcpPassiveOpens)"
kill $redis
check "nothing was violated" clean
verdict
