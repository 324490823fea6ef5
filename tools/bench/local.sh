#!/bin/bash
# Two programs on one host: through shared memory (VMA_LOCAL=1), compared with the kernel's loopback
# interface, blocking and polling, and with the raw limit: a cache line that two threads pass to each
# other.
#
#	udp tcp		one way of a 14-byte ping-pong, p50 (sockperf pp)
#	wake		the same of a reader that sleeps: VMA_RX_POLL=0, compared with the blocking kernel
#	udp_tp tcp_tp	messages of 100 bytes per second in one direction (sockperf tp); of UDP those
#			that arrived
#	udp_paced	the same at 12 times the kernel's rate of udp_tp: what is lost, in per cent
#	udp_room	the same with VMA_RX_BYTES_MIN=16000000: room for what comes while the host takes the
#			processor of the reader away, some milliseconds at a time
#	bulk		megabits per second (iperf3)
#	redis redis1	redis-benchmark, GET, 50 connections and 1: requests per second
#	memcached	memcslap, get, one connection: requests per second
#	four		two of redis and two of redis-benchmark, 50 connections each, which share two processors:
#			requests per second of both, with the default settings
#	many		10,000 connections, one active: its one way, and memory of an idle one
#	idle		processor time of an idle pair in a second
#
#	bazel run //tools:bench_local -- [--rounds N] [--only NAMES] [--check]
#
#	--rounds N	measure everything N times, in turns (3)
#	--only NAMES	those that match this regular expression
#	--check		fail when a target is missed
#
# state.sh tells which measurements are compared.
set -u
self=$(realpath -s "$0")
[[ -e tools/lib/netns.sh ]] || cd "${self%/*}/../.." || exit 1
NETNS_LIMIT=1200
. tools/lib/netns.sh
. tools/bench/state.sh
. tools/bench/ask.sh

rounds=3
check=0
only=.
args=("$@")
while (($#)); do
	case $1 in
	--rounds) rounds=${2:-} && shift ;;
	--only) only=${2:-} && shift ;;
	--check) check=1 ;;
	*) rounds= ;;
	esac
	shift
done
[[ $rounds =~ ^[1-9][0-9]?$ ]] || die "usage: bench_local [--rounds N] [--only NAMES] [--check]"
needs sockperf iperf3 redis-server redis-benchmark memcached memcslap
netns_enter "$self" "${args[@]}"
deadline=$((SECONDS + 1150))

raw=$(find_program tools/bench/xdp_pingpong) || exit 1
program=$(find_program tools/bench/local_bench) || exit 1
[[ -n $lib ]] || die "no library to measure"
netns_pick_cpus
[[ $cpu_server != "$cpu_client" ]] || die "needs two processors"
ulimit -Hn 30000 2> /dev/null
netns_new s
host=127.0.0.1
connections=10000
polling=(VMA_LOCAL=1 VMA_RX_POLL=-1 VMA_SELECT_POLL=-1)
samples=$netns_tmp/samples
log=$netns_tmp/log
: > $samples

measure_raw() {
	local line

	line=$(timeout 10 "$raw" --cpus "$cpu_client,$cpu_server" --probe) || return
	[[ $line =~ cache_line_ns=([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

# sockperf_run LIB MODE OPTION...
sockperf_run() {
	local preload=$1 mode=$2 rc=0 option server=()

	shift 2
	for option; do
		[[ $option != --tcp && $option != --nonblocked ]] || server+=($option)
	done
	sockperf_serve $log.server s "$preload" $cpu_server -i $host "${server[@]}" &&
		sockperf_ask $log.client s "$preload" $cpu_client $mode -i $host "$@" || rc=1
	sockperf_stop
	return $rc
}

# pp LIB OPTION...: nanoseconds.
pp() {
	# It has room for as many messages as it might send at this rate.
	sockperf_run "$1" pp -m 14 -t 1 --mps=10000000 "${@:2}" || return
	sockperf_value $log.client p50 | awk '{ printf "%.0f\n", $1 * 1000 }'
}

# Kinds: libvma, kernel (blocking), spinning.
measure_udp() {
	local spin=()

	[[ $2 != spinning ]] || spin=(--nonblocked)
	pp "$1" "${spin[@]}"
}

measure_tcp() {
	local spin=()

	[[ $2 != spinning ]] || spin=(--nonblocked)
	pp "$1" --tcp "${spin[@]}"
}

measure_wake() {
	vma_env+=(VMA_RX_POLL=0 VMA_SELECT_POLL=0)
	pp "$1" --tcp
}

measure_tcp_tp() {
	sockperf_run "$1" tp -m 100 -t 2 --tcp || return
	sed -nE 's/.*Message Rate is ([0-9]+) .*/\1/p' $log.client
}

# What the server has received of it, in the time of the client; and what was lost, in per cent.
measure_udp_tp() {
	sockperf_run "$1" tp -m 100 -t 2 || return
	awk -v rate="$(sed -nE 's/.*Message Rate is ([0-9]+) .*/\1/p' $log.client)" \
		-v sent="$(sockperf_value $log.client sent)" -v got="$(sockperf_value $log.server handled)" '
		BEGIN { if (sent > 0) printf "%.0f lost=%.3f\n", rate * got / sent, 100 * (sent - got) / sent }'
}

# At a rate that the reader can keep up with.
measure_udp_paced() {
	local mps

	mps=$(awk '$1 == "udp_tp_kernel" { rate = $3 } END { printf "%d", 12 * rate }' $samples)
	((mps > 0)) || mps=$(measure_udp_tp "" | awk '{ printf "%d", 12 * $1 }') # there was no state to compare in
	((mps > 0)) || return
	sockperf_run "$1" tp -m 100 -t 2 --mps=$mps || return
	awk -v sent="$(sockperf_value $log.client sent)" -v got="$(sockperf_value $log.server handled)" '
		BEGIN { if (sent > 0) printf "%.0f lost=%.4f\n", sent / 2, 100 * (sent - got) / sent }'
}

measure_udp_room() {
	vma_env+=(VMA_RX_BYTES_MIN=16000000)
	measure_udp_paced "$1"
}

measure_bulk() {
	ask s "$1" 5201 iperf3 -c $host -t 2 -f m -- iperf3 -s -1 -B $host
	sed -nE 's/.* ([0-9.]+) Mbits\/sec.*receiver.*/\1/p' $log.client
}

measure_redis() {
	redis s "$1" $host 50 200000
}

measure_redis1() {
	redis s "$1" $host 1 50000
}

measure_memcached() {
	ask s "$1" 11211 memcslap --servers=$host:11211 --test=get --concurrency=1 --execute-number=100000 -- \
		memcached -u root -l $host -p 11211 -U 0 -t 1
	sed -nE 's/^Time to get .*: +([0-9.]+) seconds.*/\1/p' $log.client | awk '$1 > 0 { printf "%.0f\n", 100000 / $1 }'
}

# pair LIB PORT: its output is in files of its own.
pair() {
	local log=$log.$2

	redis s "$1" $host 50 100000 "$2"
}

measure_four() {
	local both=$cpu_server,$cpu_client cpu_server cpu_client first

	cpu_server=$both cpu_client=$both
	vma_env=(VMA_TRACELEVEL=warn VMA_LOCAL=1)
	pair "$1" 6379 > $log.rate &
	first=$!
	pair "$1" 6380 > $log.other
	wait $first
	cat $log.{6379,6380}.server > $log.server
	cat $log.{6379,6380}.client > $log.client
	awk '{ sum += $1 } END { if (NR == 2) printf "%.0f\n", sum }' $log.rate $log.other
}

measure_many() {
	ask s "$1" 7000 "$program" many $host 7000 $connections SERVER -- "$program" serve $host 7000
	grep -o '[a-z_]*=[0-9-]*' $log.client
}

measure_idle() {
	vma_env=(VMA_TRACELEVEL=warn VMA_LOCAL=1)
	ask s "$1" 7000 "$program" idle $host 7000 SERVER -- "$program" serve $host 7000
	grep -o '[a-z_]*=[0-9-]*' $log.client
}

# In a subshell: the environment is that of one measurement.
measure() {
	local value side=$lib

	[[ $1 != raw ]] || { measure_raw && return; }
	[[ ${1##*_} == libvma ]] || side=
	vma_env+=("${polling[@]}")
	value=$(measure_"${1%_*}" "$side" "${1##*_}")
	if [[ -n $side ]] && grep -q 'VMA WARNING' $log.server $log.client; then
		tail -n 15 $log.server $log.client >&2
		return
	fi
	[[ -n $value ]] || tail -n 15 $log.server $log.client >&2
	echo "$value"
}

missed=0

# line STATE NAME UNIT TARGET LESS|MORE OURS THEIRS: the ratio by which ours is better.
line() {
	local over

	[[ -n $6 && -n $7 ]] || return 0
	over=$([[ $5 == more ]] && ratio "$6" "$7" || ratio "$7" "$6")
	printf '%-12s %12s %12s %10s %8s  %s\n' "$2" "$6" "$7" "$over" "$4" "$3"
	lines+=("bench_local state=$1 name=$2 libvma=$6 other=$7 times_as_good=$over target=$4")
	[[ $4 == - ]] || ! exceeds "$4" "$over" || missed=$((missed + 1))
}

# above STATE NAME: nanoseconds above the raw limit, 200 at most.
above() {
	local ours limit

	ours=$(median $2_libvma "$1" 0)
	limit=$(median raw "$1" 0)
	[[ -n $ours && -n $limit ]] || return 0
	printf '%-12s %12s %12s %10s %8s  %s\n' "$2 raw" "$ours" "$limit" "+$((ours - limit))" +200 "ns"
	lines+=("bench_local state=$1 name=$2_above_raw libvma=$ours raw=$limit above=$((ours - limit)) target=200")
	((ours - limit <= 200)) || missed=$((missed + 1))
}

report() {
	local name state=$1

	printf '\ntwo programs on one host; processors %s\n\n' "$state"
	printf '%-12s %12s %12s %10s %8s\n' "" libvma other ratio target
	for name in udp tcp; do
		above "$state" $name
		line "$state" $name "ns, kernel polling" - less "$(median ${name}_libvma "$state" 0)" "$(median ${name}_spinning "$state" 0)"
		line "$state" $name "ns, kernel blocking" - less "$(median ${name}_libvma "$state" 0)" "$(median ${name}_kernel "$state" 0)"
	done
	line "$state" wake "ns, kernel blocking" 0.77 less "$(median wake_libvma "$state" 0)" "$(median wake_kernel "$state" 0)"
	for name in udp_tp tcp_tp; do
		line "$state" $name "messages/s" 12 more "$(median ${name}_libvma "$state" 0)" "$(median ${name}_kernel "$state" 0)"
	done
	line "$state" bulk "Mbit/s" 1.5 more "$(median bulk_libvma "$state" 0)" "$(median bulk_kernel "$state" 0)"
	for name in redis redis1 memcached; do
		line "$state" $name "requests/s" 3 more "$(median ${name}_libvma "$state" 0)" "$(median ${name}_kernel "$state" 0)"
	done
	line "$state" four "requests/s" 1 more "$(median four_libvma "$state" 0)" "$(median four_kernel "$state" 0)"
	line "$state" many "ns; with one connection" 0.9 less "$(median many_libvma.many_ns "$state" 0)" "$(median many_libvma.one_ns "$state" 0)"
	line "$state" memory "bytes of an idle connection; limit" 1 less "$(median many_libvma.bytes "$state" 0)" 4096
	[[ -z $(median idle_libvma.ticks "$state") ]] ||
		printf '%-12s %12s %12s\n' "idle" "$(median idle_libvma.ticks "$state" 0)" "$(median idle_kernel.ticks "$state" 0)"
	for name in udp_tp udp_paced udp_room; do
		[[ -z $(median ${name}_libvma.lost "$state") ]] ||
			printf '%-12s %12s %12s %%\n' "$name lost" "$(median ${name}_libvma.lost "$state")" \
				"$(median ${name}_kernel.lost "$state")"
	done
}

names=(raw)
for name in udp tcp wake udp_tp udp_paced udp_room tcp_tp bulk redis redis1 memcached four many idle; do
	[[ $name =~ $only ]] || continue
	names+=(${name}_libvma)
	[[ $name == udp_paced || $name == udp_room ]] || names+=(${name}_kernel)
	[[ $name != udp && $name != tcp ]] || names+=(${name}_spinning)
done
((${#names[@]} > 1)) || die "nothing is called $only"
for ((i = 0; i < rounds; i++)); do
	one_round measure "${names[@]}" || break
done
lines=()
for state in "${states[@]}"; do
	[[ -z $(median raw $state) ]] || report $state
done
((${#lines[@]})) || die "nothing was measured"
echo
printf '%s\n' "${lines[@]}"
((!check || missed == 0)) || die "$missed targets missed"
