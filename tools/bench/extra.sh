#!/bin/bash
# What a message of 100 bytes costs from the frame to the program, in each way to receive it, and what
# a send costs: instructions of the library, counted one by one, and nanoseconds; on AF_XDP, on the
# emulated ConnectX card, and within the host.
#
#	cx  v0 10.9.0.1 ------------ v0 10.9.0.2  sx	AF_XDP; echo, by the kernel
#	cm  v0, a card ---- wm ----- v0, a card   sm	mlx5; the same
#	l   lo 127.0.0.1: both ends in the program, through shared memory	local
#
#	bazel run //tools:bench_extra -- [--count N] [--check]
#
#	--count N	calls of each kind (9)
#	--check		fail if a number is missing
#
# The nanoseconds of the emulated card contain no card: it works in another process.
set -u
self=$(realpath -s "$0")
[[ -e tools/lib/netns.sh ]] || cd "${self%/*}/../.." || exit 1
. tools/lib/netns.sh
netns_enter "$self" "$@"

count=9
check=0
while (($#)); do
	case $1 in
	--count) count=${2:-} && shift ;;
	--check) check=1 ;;
	*) count= ;;
	esac
	shift
done
[[ $count =~ ^[1-9][0-9]?$ ]] || die "usage: bench_extra [--count N] [--check]"

steps=$(find_program tools/bench/steps) || exit 1
program=$(find_program tests/budget/extra) || exit 1
probe=$(netns_find_probe) || exit 1
[[ -n $lib ]] || die "no library to count in"
plain=$lib

# measure PORT NAMESPACE PEER WORD...: everything, by one program each. PEER: words for the program.
measure() {
	local port=$1 ns=$2 peer=$3 xtreme way

	for xtreme in 0 1; do
		for way in count time; do
			local runner=()
			[[ $way == time ]] || runner=("$steps")
			(netns_exec $ns "" 0-1023 timeout -s KILL 300 "${runner[@]}" env LD_PRELOAD="$lib" "${vma_env[@]}" \
				VMA_PROGRESS_ENGINE_INTERVAL=0 VMA_THREAD_MODE=1 VMA_SOCKETXTREME=$xtreme \
				"$program" $peer $count ${way/count/} "${@:4}" \
				> $netns_tmp/$port.$way.$xtreme 2>&1 < /dev/null) ||
				{ tail -5 $netns_tmp/$port.$way.$xtreme && die "$port: the program fails"; }
		done
	done
}

# instructions PORT NAME: of one message.
instructions() {
	local xtreme=0 messages=1

	[[ $2 != *_xtreme_* ]] || xtreme=1
	[[ $2 != *_10 ]] || messages=10
	[[ $(grep -E "^call=(local_)?$2 instructions=" $netns_tmp/$1.count.$xtreme) =~ fewest=([0-9]+) ]] &&
		echo $((BASH_REMATCH[1] / messages)) || echo -
}

nanoseconds() {
	local xtreme=0

	[[ $2 != *_xtreme_* ]] || xtreme=1
	[[ $(grep -E "^call=(local_)?$2 ns=" $netns_tmp/$1.time.$xtreme) =~ ns=([0-9]+) ]] &&
		echo "${BASH_REMATCH[1]}" || echo -
}

# row WORDS WAY NUMBER...: one line for each number of messages at a time.
row() {
	local words=$1 way=$2 n port proto

	for n in "${@:3}"; do
		printf '%-34s %3s' "$words" $n
		for port in "${ports[@]}"; do
			for proto in udp tcp; do
				printf ' %7s %6s' "$(instructions $port ${proto}_${way}_$n)" \
					"$(nanoseconds $port ${proto}_${way}_$n)"
			done
		done
		echo
	done
}

ports=(xdp mlx5 local)
netns_pair x
netns_spawn $netns_tmp/serve.x sx "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"
measure xdp cx "10.9.0.2 7000"

netns_new l
ip -n l link set lo up
vma_env+=(VMA_LOCAL=1)
measure local l local
unset "vma_env[-1]"

NETNS_CARD=1 netns_pair m
netns_spawn $netns_tmp/serve.m sm "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server on a card"
lib=$lib measure mlx5 cm "10.9.0.2 7000" nap
lib=$plain

table() {
	printf 'a message of 100 bytes: instructions, ns (median of %s); so many at a time\n' $count
	printf '%-38s' ""
	for port in "${ports[@]}"; do
		printf ' %14s %14s' "$port, UDP" "$port, TCP"
	done
	echo
	row "recv()" recv 1 10
	row "epoll_wait(), recv()" epoll 1 10
	row "vma_recv_batch()" batch 1 10
	row "recvfrom_zcopy(), free_packets()" zcopy 1 10
	row "callback, in epoll_wait()" callback 1 10
	row "callback, in recv()" called 1 10
	row "socketxtreme_poll(), free" xtreme 1 10
	row "send()" send 1
	row "vma_commit() of a room" commit 1
	row "vma_send_batch()" out 10
}

table | tee $netns_tmp/table
if ((check)) && grep -E ' -( |$)' $netns_tmp/table; then
	die "numbers are missing"
fi
netns_conclude
