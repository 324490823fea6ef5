#!/bin/bash
# The cost of rings: to hold one, to post to one, and whether busy rings of one process slow each
# other down. The rings are on a loop-back port, so no network and no privilege is needed.
#
#	bazel run //tools:bench_rings -- [--rounds N] [--check | --any-state]
#
#	--rounds N	measure everything N times, in turns (5)
#	--check		fail when a target is missed
#	--any-state	to test the bench: fail when a measurement gives no result
#
# //tools:bench prints these results, too.
set -u
self=$(realpath -s "$0")
[[ -e tools/lib/netns.sh ]] || cd "${self%/*}/../.." || exit 1
. tools/lib/netns.sh
. tools/bench/state.sh

rounds=5
check=0
any_state=0
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
	die "usage: bench_rings [--rounds N] [--check | --any-state]"
((!any_state)) || compare_any

target_slower=1.05 # allowed cost of a busy ring for the others
target_rate=1.9    # two threads on two rings, against one on one
deadline=$((SECONDS + 45))

raw=$(find_program tools/bench/xdp_pingpong) || exit 1
steps=$(find_program tools/bench/steps) || exit 1
hold=$(find_program tools/bench/hold_bench) || exit 1
inbox=$(find_program tools/bench/inbox_bench) || exit 1
traffic=$(find_program tools/bench/traffic_bench) || exit 1
netns_pick_cpus
[[ $cpu_server != "$cpu_client" ]] || die "needs two processors"
cpus=$cpu_client,$cpu_server
samples=$(mktemp)
trap 'rm -f "$samples"' EXIT

# The measurements, PROGRAM_ARGUMENT; each prints its results as KEY=VALUE. A new one needs a
# program above, its names here, and a report_*().
names=(hold_{0,1,2,3} inbox_{1,2,8} traffic_{0,1,3,control})

measure() {
	local program=${1%_*}

	timeout 20 "${!program}" "$cpus" "${1##*_}"
}

# Exact, so a single run is enough. NAME INSTRUCTIONS LOCKED
counts=$("$steps" "$hold" "$cpus" count | sed -nE 's/^call=hold_(\w+) instructions=([0-9]+) locked=([0-9]+).*/\1 \2 \3/p')

missed=0
lines=()

# cell NAME [DIGITS]: the median in this state, or a dash.
cell() {
	local value

	value=$(median "$1" "$state" "${2:-1}")
	echo "${value:--}"
}

report_hold() {
	local mode name instructions locked

	printf '\nholding and releasing a ring, ns\n'
	printf '%-26s %9s %12s %13s %7s\n' "" "one thread" "two threads" instructions locked
	mode=0
	for name in single spin mutex yield; do
		read -r _ instructions locked < <(grep "^$name " <<< "$counts")
		printf '  mode %d, %-16s %9s %12s %13s %7s\n' $mode $name "$(cell hold_$mode.alone 2)" \
			"$(cell hold_$mode.two 2)" "${instructions:--}" "${locked:--}"
		lines+=("bench_hold state=$state mode=$mode alone_ns=$(cell hold_$mode.alone 2) two_ns=$(cell hold_$mode.two 2) instructions=${instructions:--} locked=${locked:--} samples=$(count hold_$mode.alone "$state")")
		mode=$((mode + 1))
	done
}

report_inbox() {
	local way

	printf '\nposting to a ring, ns from item to item\n%-26s %9s %9s %9s\n' "" "1 poster" 2 8
	for way in stack ring; do
		printf '  %-24s %9s %9s %9s\n' \
			"$([[ $way == stack ]] && echo "inbox (CK stack)" || echo "CK ring, mpsc")" \
			"$(cell inbox_1.$way)" "$(cell inbox_2.$way)" "$(cell inbox_8.$way)"
		lines+=("bench_inbox state=$state way=$way posters1_ns=$(cell inbox_1.$way) posters2_ns=$(cell inbox_2.$way) posters8_ns=$(cell inbox_8.$way) samples=$(count inbox_1.$way "$state")")
	done
}

report_traffic() {
	local slower rate control others

	printf '\na datagram sent and received on the thread'\''s own ring, ns of processor time\n'
	printf '%-26s %9s %9s %9s %9s\n' "other busy rings" 0 1 3 target
	printf '  %-24s %9s %9s %9s\n' "" "$(cell traffic_0.busy)" "$(cell traffic_1.busy)" "$(cell traffic_3.busy)"
	printf '  %-24s %9s %9s %9s %9s\n' "compared with no others" "$(cell traffic_0.slower 2)" \
		"$(cell traffic_1.slower 2)" "$(cell traffic_3.slower 2)" $target_slower
	for others in 1 3; do
		slower=$(cell traffic_$others.slower 3)
		! exceeds "$slower" $target_slower || missed=$((missed + 1))
	done
	rate=$(cell traffic_1.rate 2)
	control=$(cell traffic_control.rate 2)
	printf '\ntwo threads on two rings, compared with one on one\n'
	printf '  %-24s %9s %29s\n' "" "$rate" "$target_rate"
	printf '  %-24s %9s\n' "nothing shared, no rings" "$control"
	if [[ $rate == - ]] || exceeds $target_rate "$rate"; then
		# Processors that others use as well do not give two processors' work.
		if [[ $control != - ]] && exceeds $target_rate "$control"; then
			echo "  the machine does not allow it at present"
		else
			missed=$((missed + 1))
		fi
	fi
	lines+=("bench_traffic state=$state others0_ns=$(cell traffic_0.busy) others1_ns=$(cell traffic_1.busy) others3_ns=$(cell traffic_3.busy) others1_slower=$(cell traffic_1.slower 3) others3_slower=$(cell traffic_3.slower 3) target_slower=$target_slower two_rings_rate=$rate target_rate=$target_rate control_rate=$control samples=$(count traffic_1.rate "$state")/$(count traffic_3.slower "$state")")
}

for ((round = 1; round <= rounds; round++)); do
	one_round measure "${names[@]}" || break
done
for state in "${states[@]}"; do
	# A state with few measurements proves nothing.
	(($(count hold_1.alone $state) && $(count traffic_1.rate $state))) || continue
	printf '\n---- rings; medians; processors %s\n' "$(processors $state)"
	report_hold
	report_inbox
	report_traffic
done
((${#lines[@]})) || die "no two measurements in the same state: the machine is too busy"
cat << 'END'

two threads   want the same ring all the time: the time from hold to hold; in mode 0
              the other one is the internal thread, every 100 us
instructions  of a thread alone, counted by withdrawing; locked ones are among them
posters       8: more threads than processors; the reader has one of these, too
busy rings    their threads share the other processor, so what they take is not
              time but caches, and lines that are shared
END
echo
printf '%s\n' "${lines[@]}"
((!any_state)) || exit $((no_result > 0))
((!check || missed == 0))
