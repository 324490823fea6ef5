#!/bin/bash
# The one-way time of a 14-byte ping-pong through libvma.so, through the kernel blocking and
# polling, and at the raw limit of the same path: two AF_XDP sockets that return frames without
# reading them. Then a program with two threads, on one ring and on one each; and the cost of rings:
# rings.sh.
#
#	bazel run //tools:bench -- [--rounds N] [--check | --any-state]
#	bazel run //tools:bench -- --device DEVICE --peer ADDRESS | --answer ADDRESS
#
#	--rounds N	measure everything N times, in turns (5)
#	--check		fail when a target is missed
#	--any-state	to test the bench: fail when a measurement gives no result
#	--device ...	measure a ConnectX card instead: device.sh
#
# state.sh tells which measurements are compared.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	client, CPU 1             server, CPU 0
set -u
self=$(realpath -s "$0")
[[ -e tools/lib/netns.sh ]] || cd "${self%/*}/../.." || exit 1
case ${1:-} in
--device | --peer | --answer) exec tools/bench/device.sh "$@" ;;
esac
NETNS_LIMIT=240
. tools/lib/netns.sh
. tools/bench/state.sh

rounds=5
check=0
any_state=0
args=("$@")
while (($#)); do
	case $1 in
	--rounds) rounds=${2:-} && shift ;;
	--check) check=1 ;;
	--any-state) any_state=1 ;;
	*) rounds= ;;
	esac
	shift
done
[[ $rounds =~ ^[1-9][0-9]?$ ]] && ((check + any_state < 2)) ||
	die "usage: bench [--rounds N] [--check | --any-state]"
netns_enter "$self" "${args[@]}"

((!any_state)) || compare_any
target_udp=1.4 # times the raw limit
target_tcp=1.7
deadline=$((SECONDS + 150))

raw=$(find_program tools/bench/xdp_pingpong) || exit 1
threads=$(find_program tools/bench/threads_bench) || exit 1
[[ -n $lib ]] || die "no library to measure"
vma_env+=(VMA_RX_POLL=-1 VMA_SELECT_POLL=-1)
netns_pick_cpus
[[ $cpu_server != "$cpu_client" ]] || die "needs two processors"
netns_pair ""
samples=$netns_tmp/samples
: > $samples
netns_spawn $netns_tmp/log.serve s "" "$threads" serve 7100 || die "no server"

measure_raw() {
	local line

	line=$(timeout 20 $raw --cpus $cpu_client,$cpu_server --count 100000 v0 c v0 s) || return
	[[ $line =~ raw_p50_us=([0-9.]+) ]] && echo "${BASH_REMATCH[1]}"
}

# measure_sockperf LIB OPTION...
measure_sockperf() {
	local preload=$1 log=$netns_tmp/log ok=1

	shift
	sockperf_serve $log.server s "$preload" $cpu_server -i $netns_server "$@" &&
		sockperf_ask $log.client c "$preload" $cpu_client pp -i $netns_server -m 14 -t 1 "$@" || ok=0
	sockperf_stop
	if ((!ok)) || grep -q 'VMA WARNING' $log.server $log.client; then
		tail -n 15 $log.server $log.client >&2
		return
	fi
	sockperf_value $log.client p50
}

# threads_run LOGIC LEVEL ARG...: two threads, with an allocation logic. Prints nothing if the setup
# is wrong, for example too few rings.
threads_run() {
	local log=$netns_tmp/log.threads

	(
		vma_env+=(VMA_RING_ALLOCATION_LOGIC_RX=$1 VMA_RING_ALLOCATION_LOGIC_TX=$1 VMA_TRACELEVEL=$2)
		netns_run c "$lib" "$threads" "$cpu_client,$cpu_server" "${@:3}" > $log
	)
	if grep 'no room for more than' $log >&2; then
		return
	fi
	cat $log
}

# The duration of each move.
measure_moves() {
	threads_run 20 debug hop $netns_server 7100 30 |
		sed -nE 's/.*moved from ring [0-9]+ to ring [0-9]+ in ([0-9]+) us.*/us=\1/p'
}

measure() {
	case $1 in
	moves) measure_moves ;;
	hammer_*) threads_run ${1#hammer_} warn hammer $netns_server 7101 ;;
	raw) measure_raw ;;
	udp_libvma) measure_sockperf "$lib" ;;
	tcp_libvma) measure_sockperf "$lib" --tcp ;;
	udp_spinning) measure_sockperf "" --nonblocked ;;
	tcp_spinning) measure_sockperf "" --tcp --nonblocked ;;
	udp_blocking) measure_sockperf "" ;;
	tcp_blocking) measure_sockperf "" --tcp ;;
	esac
}

names=(raw udp_libvma tcp_libvma udp_spinning tcp_spinning udp_blocking tcp_blocking
	hammer_0 hammer_20 moves)

missed=0

report() {
	local state=$1 protocol ours spinning blocking limit target over

	limit=$(median raw "$state")
	printf '\none way, p50 in microseconds; processors %s\n\n' "$(processors "$state")"
	printf '%-5s %9s %9s %12s %12s %12s %9s %18s\n' "" raw libvma spinning blocking libvma/raw target "spinning/libvma"
	for protocol in udp tcp; do
		ours=$(median ${protocol}_libvma "$state")
		spinning=$(median ${protocol}_spinning "$state")
		blocking=$(median ${protocol}_blocking "$state")
		target=target_$protocol
		over=$(ratio "$ours" "$limit")
		printf '%-5s %9s %9s %12s %12s %12s %9s %18s\n' $protocol "${limit:--}" "${ours:--}" \
			"${spinning:--}" "${blocking:--}" "$over" "${!target}" "$(ratio "$spinning" "$ours")"
		lines+=("bench state=$state protocol=$protocol raw_us=${limit:--} libvma_us=${ours:--} spinning_us=${spinning:--} blocking_us=${blocking:--} libvma_per_raw=$over target=${!target} spinning_per_libvma=$(ratio "$spinning" "$ours") blocking_per_libvma=$(ratio "$blocking" "$ours") samples=$(count raw "$state")/$(count ${protocol}_libvma "$state")/$(count ${protocol}_spinning "$state")/$(count ${protocol}_blocking "$state")")
		! exceeds "$over" "${!target}" || missed=$((missed + 1))
	done
}

report_threads() {
	local state=$1 logic both alone p50 p99

	printf '\ntwo threads, each sending from its own socket: datagrams per second\n\n'
	printf '%-26s %12s %12s %12s\n' "allocation logic" "one thread" both both/one
	for logic in 0 20; do
		alone=$(median hammer_$logic.alone "$state" 0)
		both=$(median hammer_$logic.both "$state" 0)
		printf '%-26s %12s %12s %12s\n' \
			"$([[ $logic == 0 ]] && echo "0, one ring" || echo "20, a ring per thread")" \
			"${alone:--}" "${both:--}" "$(ratio "$both" "$alone")"
		lines+=("bench_threads state=$state logic=$logic alone=${alone:--} both=${both:--} rate=$(ratio "$both" "$alone") samples=$(count hammer_$logic.both "$state")")
	done
	p50=$(percentile 50 moves.us "$state")
	p99=$(percentile 99 moves.us "$state")
	printf '\na socket moves to the ring of the other thread, us: p50 %s, p99 %s (%d moves)\n' \
		"${p50:--}" "${p99:--}" "$(count moves.us "$state")"
	lines+=("bench_moves state=$state p50_us=${p50:--} p99_us=${p99:--} samples=$(count moves.us "$state")")
}

for ((round = 1; round <= rounds; round++)); do
	one_round measure "${names[@]}" || break
done
lines=()
for state in "${states[@]}"; do
	# A state with few measurements proves nothing.
	[[ -n $(median raw $state) && -n $(median udp_libvma $state)$(median tcp_libvma $state) ]] || continue
	report $state
	report_threads $state
done
((${#lines[@]})) || die "no two measurements in the same state: the machine is too busy"
cat << 'END'

raw       two AF_XDP sockets on the ends of the same veth pair bounce a frame
libvma    sockperf, both sides with the library, VMA_RX_POLL=-1
spinning  sockperf --nonblocked on both sides, through the kernel
blocking  sockperf, through the kernel

END
printf '%s\n' "${lines[@]}"
rings=(--rounds $rounds)
((!check)) || rings+=(--check)
((!any_state)) || rings+=(--any-state)
tools/bench/rings.sh "${rings[@]}"
rings_failed=$?
netns_conclude
((!any_state)) || exit $((no_result > 0 || rings_failed))
((!check || missed + rings_failed == 0))
