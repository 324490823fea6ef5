#!/bin/bash
# TCP, with both sides through libvma.so, compared with both sides through the kernel:
#
#	tp	messages of 100 bytes per second, in one direction (sockperf tp)
#	loop	the same over the loop-back test port, without an interface and a kernel;
#		with TCP_NODELAY, a segment per message, compared with the kernel's tp;
#		_nagle: without it, as tp
#	bulk	megabits per second (iperf3)
#	raw	the same for two ports that exchange full frames in one direction and do
#		not read their contents
#	rate	connections opened, used and closed per second
#	p999	microseconds of a request and its response, with a round-trip time of 1 ms
#		and a loss of one frame in a thousand
#
#	bazel run //tools:bench_tcp -- [--rounds N] [--only NAME] [--check]
#
#	--rounds N	measure everything N times, in turns (5)
#	--only NAME	one of the above
#	--check		fail when a target is missed
#
# state.sh tells which measurements are compared.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	c0 v0 10.9.0.1 --- link --- v0 10.9.0.2 s0	(p999)
set -u
self=$(realpath -s "$0")
[[ -e tools/lib/netns.sh ]] || cd "${self%/*}/../.." || exit 1
NETNS_LIMIT=1200
. tools/lib/netns.sh
. tools/bench/state.sh
. tests/interop/lane.sh

rounds=5
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
[[ $rounds =~ ^[1-9][0-9]?$ ]] || die "usage: bench_tcp [--rounds N] [--only NAME] [--check]"
netns_enter "$self" "${args[@]}"
deadline=$((SECONDS + 1150))

raw=$(find_program tools/bench/xdp_pingpong) || exit 1
bulk=$(find_program tests/interop/bulk) || exit 1
flood=$(find_program tools/bench/port_flood) || exit 1
loop=$(find_program tools/bench/loop_tp) || exit 1
wire=$(find_program tests/interop/wire) || exit 1
[[ -n $lib ]] || die "no library to measure"
netns_pick_cpus
[[ $cpu_server != "$cpu_client" ]] || die "needs two processors"
netns_pair ""
lane_up 0
for ns in c s c0 s0; do
	# Settings of both, which a namespace may choose.
	in_ns $ns sh -c 'echo reno > /proc/sys/net/ipv4/tcp_congestion_control' || die "no reno"
done
netns_spawn $netns_tmp/log.wire w0 "" "$wire" w0 w1 delay=0.5 loss=0.1 || die "no wire"
samples=$netns_tmp/samples
log=$netns_tmp/log
: > $samples

# end_server PID
end_server() {
	kill -TERM "$1" 2> /dev/null
	await 5 is_gone "$1" || kill -KILL "$1"
	wait "$1"
} 2> /dev/null

# sockperf_run LANE LIB MODE OPTION...
sockperf_run() {
	local lane=$1 preload=$2 mode=$3 rc=0

	shift 3
	sockperf_serve $log.server "s$lane" "$preload" $cpu_server -i $netns_server --tcp &&
		sockperf_ask $log.client "c$lane" "$preload" $cpu_client "$mode" -i $netns_server --tcp "$@" || rc=1
	sockperf_stop
	return $rc
}

measure_tp() {
	sockperf_run "" "$1" tp -m 100 -t 2 || return
	sed -nE 's/.*Message Rate is ([0-9]+) .*/\1/p' $log.client
}

measure_loop() {
	: > $log.server
	timeout 20 "$loop" $cpu_client,$cpu_server > $log.client 2>&1
	sed -nE 's/^messages_per_s=([0-9]+) nagle=/\1 nagle=/p' $log.client
}

measure_p999() {
	sockperf_run 0 "$1" pp -m 100 -t 12 || return
	sockperf_value $log.client p99.9
}

measure_bulk() {
	local server

	netns_exec s "$1" $cpu_server iperf3 -s -1 -B $netns_server > $log.server 2>&1 < /dev/null &
	server=$!
	await 5 grep -q listening $log.server
	(netns_exec c "$1" $cpu_client timeout -s KILL 20 iperf3 -c $netns_server -t 2 -f m > $log.client 2>&1 < /dev/null)
	end_server $server
	sed -nE 's/.* ([0-9.]+) Mbits\/sec.*receiver.*/\1/p' $log.client
}

# The payload of a full segment with timestamps.
measure_raw() {
	timeout 20 "$flood" $cpu_client,$cpu_server 1514 v0 c v0 s > $log.client 2>&1
	sed -nE 's/^frames_per_s=([0-9]+) .*/\1 1448/p' $log.client | awk '{ printf "%.0f\n", $1 * $2 * 8 / 1e6 }'
}

measure_rate() {
	local server

	: > $log.server
	netns_exec s "$1" $cpu_server "$bulk" serve $netns_server 7000 > $log.server 2>&1 < /dev/null &
	server=$!
	await 5 grep -q ready $log.server
	(netns_exec c "$1" $cpu_client timeout -s KILL 20 "$bulk" go $netns_server 7000 both 100 3000 10 > $log.client 2>&1 < /dev/null)
	end_server $server
	awk '/ 0 bad, / { if ($5 > 0) printf "%.0f\n", $1 / $5 }' $log.client
}

measure() {
	local value side=$lib

	[[ $1 == *_kernel ]] && side=
	value=$(measure_${1%_*} "$side")
	if [[ -n $side ]] && grep -q 'VMA WARNING' $log.server $log.client; then
		tail -n 15 $log.server $log.client >&2
		return
	fi
	echo "$value"
}

missed=0

# line STATE NAME OURS THEIRS TARGET UNIT MORE: compares the medians of two names; more is better,
# or less.
line() {
	local ours theirs over

	[[ ${2%%_*} =~ $only ]] || return 0
	ours=$(median "$3" "$1" 1)
	theirs=$(median "$4" "$1" 1)
	[[ -n $ours && -n $theirs ]] || return 0
	over=$([[ $7 == more ]] && ratio "$ours" "$theirs" || ratio "$theirs" "$ours")
	printf '%-9s %12s %12s %10s %8s  %s\n' "$2" "$ours" "$theirs" "$over" "$5" "$6"
	lines+=("bench_tcp state=$1 name=$2 libvma=$ours other=$theirs times_as_good=$over target=$5 samples=$(count "$3" "$1")/$(count "$4" "$1")")
	[[ $5 == - ]] || ! exceeds "$5" "$over" || missed=$((missed + 1))
}

names=()
for name in tp bulk rate p999; do
	[[ $name =~ $only ]] && names+=(${name}_libvma ${name}_kernel)
	[[ $name == bulk && $name =~ $only ]] && names+=(raw)
done
[[ loop =~ $only ]] && names+=(loop)
[[ loop =~ $only && ! tp =~ $only ]] && names+=(tp_kernel)
((${#names[@]})) || die "nothing is called $only"
for ((i = 0; i < rounds; i++)); do
	one_round measure "${names[@]}" || break
done
lines=()
for state in "${states[@]}"; do
	printf '\nTCP, both sides; processors %s\n' $state
	printf '%-9s %12s %12s %10s %8s\n' "" libvma kernel ratio target
	line $state tp tp_libvma tp_kernel 3 "messages/s" more
	line $state loop loop tp_kernel 6.6 "messages/s" more
	line $state loop_nagle loop.nagle tp_kernel - "messages/s" more
	line $state bulk bulk_libvma bulk_kernel - "Mbit/s" more
	line $state rate rate_libvma rate_kernel 1 "connections/s" more
	line $state p999 p999_libvma p999_kernel 1 "us" less
	printf '%-9s %12s %12s %10s %8s\n' "" libvma raw ratio target
	line $state bulk_raw bulk_libvma raw 0.9 "Mbit/s" more
done
echo
printf '%s\n' "${lines[@]}"
((${#lines[@]})) || die "nothing was measured"
((!check || missed == 0)) || die "$missed targets missed"
