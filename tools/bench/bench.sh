#!/bin/bash
# How fast a 14-byte ping-pong is, one way, through libvma.so, through the kernel
# blocking and spinning, and at the raw limit of the same path: two AF_XDP
# sockets that bounce frames nobody looks into.
#
#	bazel run //tools:bench -- [--rounds N] [--check]
#
#	--rounds N	measure everything N times, in turns (5)
#	--check		fail when a target is missed
#
# The hypervisor moves virtual processors: what two of them need to pass a cache
# line changes by a factor of three within minutes, and everything else with it.
# So that is probed before and after each measurement; one during which it
# changed is thrown away, and only those of the same state are compared.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	client, CPU 1             server, CPU 0
set -u
self=$(realpath -s "$0")
[[ -e tools/lib/netns.sh ]] || cd "${self%/*}/../.." || exit 1
NETNS_LIMIT=240
. tools/lib/netns.sh

rounds=5
check=0
args=("$@")
while (($#)); do
	case $1 in
	--rounds) rounds=${2:-} && shift ;;
	--check) check=1 ;;
	*) rounds= ;;
	esac
	shift
done
[[ $rounds =~ ^[1-9][0-9]?$ ]] || die "usage: bench [--rounds N] [--check]"
netns_enter "$self" "${args[@]}"

near_ns=150     # a cache line passed faster than this: both CPUs on one die
target_udp=1.4  # times the raw limit
target_tcp=1.7
deadline=$((SECONDS + 165))

raw=tools/bench/xdp_pingpong
[[ -f $raw ]] || raw=bazel-bin/$raw
[[ -x $raw ]] || die "no $raw (bazel build //tools/bench:xdp_pingpong)"
[[ -n $lib ]] || die "no library to measure"
vma_env+=(VMA_RX_POLL=-1 VMA_SELECT_POLL=-1)
netns_pick_cpus
[[ $cpu_server != "$cpu_client" ]] || die "needs two processors"
netns_pair ""
samples=$netns_tmp/samples # NAME STATE P50
: > $samples

# near, far, or nothing when the probe fails.
state() {
	local line

	line=$(timeout 10 $raw --cpus $cpu_client,$cpu_server --probe) || return
	[[ $line =~ cache_line_ns=([0-9]+) ]] || return
	((BASH_REMATCH[1] < near_ns)) && echo near || echo far
}

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

measure() {
	case $1 in
	raw) measure_raw ;;
	udp_libvma) measure_sockperf "$lib" ;;
	tcp_libvma) measure_sockperf "$lib" --tcp ;;
	udp_spinning) measure_sockperf "" --nonblocked ;;
	tcp_spinning) measure_sockperf "" --tcp --nonblocked ;;
	udp_blocking) measure_sockperf "" ;;
	tcp_blocking) measure_sockperf "" --tcp ;;
	esac
}

names=(raw udp_libvma tcp_libvma udp_spinning tcp_spinning udp_blocking tcp_blocking)

one_round() {
	local name before after p50

	before=$(state)
	for name in "${names[@]}"; do
		((SECONDS < deadline)) || return 1
		p50=$(measure "$name")
		after=$(state)
		if [[ -z $p50 ]]; then
			echo "$name: no result" >&2
		elif [[ -n $before && $before == "$after" ]]; then
			echo "$name $before $p50" >> $samples
		fi
		before=$after
	done
}

# median NAME STATE; nothing without samples.
median() {
	awk -v name="$1" -v state="$2" '$1 == name && $2 == state { print $3 }' $samples | sort -n |
		awk '{ v[NR] = $1 } END { if (NR) printf "%.3f", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

count() {
	awk -v name="$1" -v state="$2" '$1 == name && $2 == state { n++ } END { print n + 0 }' $samples
}

# ratio A B: A/B, or a dash when one is missing.
ratio() {
	awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { if (a > 0 && b > 0) printf "%.2f", a / b; else printf "-" }'
}

# exceeds RATIO TARGET
exceeds() {
	awk -v r="$1" -v t="$2" 'BEGIN { exit !(r == "-" || r > t) }'
}

missed=0

report() {
	local state=$1 protocol ours spinning blocking limit target over

	limit=$(median raw "$state")
	printf '\none way, p50 in microseconds; processors %s: a cache line takes %s %d ns\n\n' \
		"$state" "$([[ $state == near ]] && echo under || echo over)" $near_ns
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

for ((round = 1; round <= rounds; round++)); do
	one_round || break
done
lines=()
for state in near far; do
	# A state that was hardly met says nothing.
	[[ -n $(median raw $state) && -n $(median udp_libvma $state)$(median tcp_libvma $state) ]] && report $state
done
((${#lines[@]})) || die "no two measurements in the same state: the machine is too busy"
cat << 'END'

raw       two AF_XDP sockets on the ends of the same veth pair bounce a frame
libvma    sockperf, both sides with the library, VMA_RX_POLL=-1
spinning  sockperf --nonblocked on both sides, through the kernel
blocking  sockperf, through the kernel

END
printf '%s\n' "${lines[@]}"
((!check || missed == 0))
