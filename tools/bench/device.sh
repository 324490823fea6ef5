#!/bin/bash
# What a card gives: the instructions and the time of a packet, by the mlx5 port and by libmlx5, and
# the one-way time of a ping-pong through the library and through the kernel. It takes a minute, and
# another host on the card's network, which answers through its kernel.
#
#	bazel run //tools:bench -- --device DEVICE --peer ADDRESS	on the card's host, as root
#	bazel run //tools:bench -- --answer ADDRESS			on the other one, before
#
#	--device DEVICE	as `ibv_devices` shows it: mlx5_0
#	--peer ADDRESS	of the other host, on the card's network
#	--answer ADDRESS	of the card's interface; ends when interrupted
#
# Ports 7000 to 7003 have to be free, and UDP and TCP there must pass the firewalls.
set -u
self=$(realpath -s "$0")
[[ -e tools/lib/netns.sh ]] || cd "${self%/*}/../.." || exit 1
. tools/lib/netns.sh

port=7000 # datagrams; the next one is the bell
udp_port=7002
tcp_port=7003
counted=15 # bursts; each is one step after the other
timed=2000
patience=60 # seconds, for one measurement

usage() {
	die "usage: bench --device DEVICE --peer ADDRESS | bench --answer ADDRESS"
}

device= peer= answer=
while (($#)); do
	[[ ${2:-} ]] || usage
	case $1 in
	--device) device=$2 ;;
	--peer) peer=$2 ;;
	--answer) answer=$2 ;;
	*) usage ;;
	esac
	shift 2
done
[[ (-n $device && -n $peer && -z $answer) || (-z $device$peer && -n $answer) ]] || usage
needs sockperf

# ---- the other host ----------------------------------------------------------------------------

answer() {
	local traffic

	traffic=$(find_program tests/mlx5/traffic) || exit 1
	trap 'kill $(jobs -p) 2> /dev/null' EXIT
	trap 'exit 0' INT TERM
	"$traffic" obey "$answer" $port &
	sockperf server -p $udp_port > /dev/null 2>&1 &
	sockperf server --tcp -p $tcp_port > /dev/null 2>&1 &
	echo "answering $answer; Control-C ends it"
	wait -n
	die "one of the servers ended: are ports $port, $udp_port, and $tcp_port free?"
}

[[ -z $answer ]] || answer

# ---- the card's host ---------------------------------------------------------------------------

sys=${SYSFS_PATH:-/sys}/class/infiniband
[[ -d $sys/$device ]] || die "no device $device; there are: $(ls "$sys" 2> /dev/null | xargs)"
interface=$(ls "$sys/$device/device/net" 2> /dev/null | head -n 1)
[[ -n $interface ]] || die "$device has no network interface: its link layer must be Ethernet"
address=$(ip -4 -o address show dev "$interface" scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
[[ -n $address ]] || die "$interface has no IPv4 address (ip address add ... dev $interface)"
hot=$(find_program tests/mlx5/hot) || exit 1
steps=$(find_program tools/bench/steps) || exit 1
library=$(realpath -e "${LIB:-$(netns_find_lib)}") || die "no library to measure (bazel build //:libvma.so)"
tmp=$(mktemp -d) || die "no directory for temporary files"
trap 'rm -rf "$tmp"' EXIT
failed=0

fail() {
	failed=1
	echo "bench: $*" >&2
}

# run HOW WAY BURST LENGTH ROUNDS: its output is in $tmp/HOW.WAY.BURST.LENGTH.
run() {
	local log=$tmp/$1.$2.$3.$4 first=()

	[[ $1 == time ]] || first=("$steps")
	# libmlx5 without locks, and both with a completion for each burst.
	MLX5_SINGLE_THREADED=1 VMA_RX_WRE=256 VMA_TX_WRE=256 VMA_RX_WRE_BATCHING=$3 VMA_TX_WRE_BATCHING=$3 \
		timeout -s KILL $patience "${first[@]}" "$hot" "$1" "$2" "$device" "$interface" "$address" \
		$port "$5" "$3" "$peer" "$4" > "$log" 2>&1 && return
	fail "$2, $3 datagrams of $4 bytes: $(tail -n 1 "$log")"
	[[ $(tail -n 1 "$log") != ready ]] || echo "Nothing came: does $peer run 'bench --answer $address'?" >&2
	return 1
}

# value HOW WAY CALL BURST LENGTH NAME: of one packet.
value() {
	sed -nE "s/^call=$3 (.* )?$6=([0-9]+).*/\\2/p" "$tmp/$1.$2.$4.$5" | awk -v n="$4" '{ printf "%.0f", $1 / n; exit }'
}

packets() {
	local burst length way call

	for length in 14 1400; do
		for burst in 16 1; do
			for way in port verbs; do
				run count $way $burst $length $counted && run time $way $burst $length $timed || return
			done
		done
	done
	echo "A packet: instructions, and nanoseconds (median of $timed bursts)"
	echo
	printf '%-6s %6s %6s  %12s %12s  %8s %8s\n' call burst bytes 'instructions' 'of libmlx5' ns 'libmlx5'
	for length in 14 1400; do
		for burst in 16 1; do
			for call in recv send; do
				printf '%-6s %6d %6d  %12s %12s  %8s %8s\n' $call $burst $length \
					"$(value count port $call $burst $length instructions)" \
					"$(value count verbs $call $burst $length instructions)" \
					"$(value time port $call $burst $length burst_ns)" \
					"$(value time verbs $call $burst $length burst_ns)"
			done
		done
	done
}

# one_way LIB OPTION...: microseconds.
one_way() {
	local log=$tmp/sockperf where=(-p $udp_port) run=()

	[[ " $* " != *' --tcp '* ]] || where=(-p $tcp_port)
	[[ -z $1 ]] || run=(env "LD_PRELOAD=$1${LD_PRELOAD:+:$LD_PRELOAD}" VMA_TRACELEVEL=warn VMA_RX_POLL=-1
		VMA_SELECT_POLL=-1)
	timeout -s KILL $patience "${run[@]}" sockperf pp -i "$peer" "${where[@]}" -m 14 -t 2 "${@:2}" > "$log" 2>&1
	if [[ -z $(sockperf_value "$log" p50) ]] || grep -q 'VMA WARNING' "$log"; then
		tail -n 15 "$log" >&2
		return 1
	fi
	sockperf_value "$log" p50
}

ping_pong() {
	local way preload options udp tcp

	echo
	echo "One way, 14 bytes, p50, in us; the peer is a kernel"
	echo
	printf '%-18s %8s %8s\n' '' UDP TCP
	for way in "libvma,$library," "kernel spinning,,--nonblocked" "kernel blocking,,"; do
		IFS=, read -r way preload options <<< "$way"
		udp=$(one_way "$preload" $options) || fail "$way, UDP: no result"
		tcp=$(one_way "$preload" --tcp $options) || fail "$way, TCP: no result"
		printf '%-18s %8s %8s\n' "$way" "${udp:--}" "${tcp:--}"
	done
}

echo "$device: $interface, $address; the peer is $peer"
echo
packets && ping_pong
exit $failed
