#!/bin/bash
# A program with the library answers, and receives, the same as the kernel would, for any frame:
# each input goes to a program with the library and to one without.
#
#	replies_test.sh 4|6 xdp|card...
#
#	c  v0 (no address) ------------------------- v0 10.9.0.2, fd00:9::2  s     target.py
#	   raw frames        card: -- cable in w --
#	   w0 (silent) ----------------------------- w0 10.99.0.2, fd00:99::2
#
# intended.txt lists the intended differences, one value each.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
. tests/mlx5/card.sh

needs ethtool
family=$1
ports=("${@:2}")
python=(/usr/bin/python3 -B)
# For the hosts behind the peer: an input that takes long on a busy machine must not lose its congestion
# window to a timeout.
no_timeouts="rto_min 30s"
# The program sees at once what the kernel has received for it.
vma_env+=(VMA_RX_UDP_POLL_OS_RATIO=1 VMA_SELECT_POLL_OS_RATIO=1)
if [[ $family == 6 ]]; then
	addresses=(fd00:9::2 ff15::7 fd00:9::66)
	rp_filters=(0) # there is none
else
	addresses=($netns_server 239.7.7.7 10.9.0.66)
	rp_filters=(0 1 2)
fi

# settings4 NAMESPACE RP_FILTER: the number of earlier answers limits no answer.
settings4() {
	in_ns "$1" sh -c "
		for i in all default v0 w0; do echo $2 > /proc/sys/net/ipv4/conf/\$i/rp_filter; done
		cd /proc/sys/net/ipv4
		echo 0 > icmp_ratemask
		echo 0 > icmp_echo_ignore_broadcasts
		echo 100000 > tcp_challenge_ack_limit
		echo 0 > tcp_invalid_ratelimit"
}

# settings6 NAMESPACE: and no address is of the kernel's choice, or tentative.
settings6() {
	in_ns "$1" sh -c "
		echo 0 > /proc/sys/net/ipv6/icmp/ratelimit
		cd /proc/sys/net/ipv6/conf
		for i in all default v0 w0; do
			echo 1 > \$i/addr_gen_mode
			echo 0 > \$i/accept_dad
			echo 0 > \$i/accept_ra
		done"
}

# addresses4 NAMESPACE
addresses4() {
	netns_up "$1" v0 $netns_server
	netns_up "$1" w0 10.99.0.2
	ip -n "$1" neigh add 10.9.0.66 lladdr 02:00:00:00:00:66 dev v0
	ip -n "$1" neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev v0
	ip -n "$1" neigh add 10.99.0.7 lladdr 02:00:00:00:00:07 dev w0
	ip -n "$1" route add default via 10.9.0.1
	ip -n "$1" route add 10.10.0.0/16 via 10.9.0.66 $no_timeouts
	ip -n "$1" route add 10.98.0.0/16 via 10.99.0.7
	ip -n "$1" route add blackhole 10.97.0.0/16
	ip -n "$1" route add unreachable 172.31.0.0/16
}

# addresses6 NAMESPACE
addresses6() {
	ip -n "$1" link set v0 up
	ip -n "$1" link set w0 up
	netns_ip6 "$1" v0 fd00:9::2/64 fe80::2/64
	netns_ip6 "$1" w0 fd00:99::2/64
	ip -n "$1" neigh add fd00:9::66 lladdr 02:00:00:00:00:66 dev v0
	ip -n "$1" neigh add fe80::66 lladdr 02:00:00:00:00:66 dev v0
	ip -n "$1" neigh add fd00:9::1 lladdr 02:00:00:00:00:01 dev v0
	ip -n "$1" neigh add fd00:99::7 lladdr 02:00:00:00:00:07 dev w0
	ip -n "$1" route add default via fd00:9::1
	ip -n "$1" route add fd00:aa::/64 via fd00:9::66 $no_timeouts
	ip -n "$1" route add fd00:98::/64 via fd00:99::7
	ip -n "$1" route add blackhole fd00:97::/64
	ip -n "$1" route add unreachable fd00:172::/64
}

# hosts TAG RP_FILTER PORT
hosts() {
	local c=c$1 s=s$1 link

	netns_new "$c" && netns_new "$s"
	if [[ $3 == card ]]; then
		netns_new "w$1"
		ip link add v0 netns "$c" type veth peer name wire netns "w$1" || die "no veth"
		card_end "$s" "w$1" wire
	else
		ip link add v0 netns "$c" type veth peer name v0 netns "$s" || die "no veth"
	fi
	ip link add w0 netns "$c" type veth peer name w0 netns "$s" || die "no veth"
	ip -n "$c" link set v0 up && ip -n "$c" link set w0 up
	[[ $family == 4 ]] || settings6 "$s"
	addresses$family "$s"
	await 30 netns_is_up "$s" v0 && await 30 netns_is_up "$s" w0 || die "the link stays down"
	for link in v0 w0; do
		in_ns "$s" ethtool -K $link tx off tso off gso off gro off > /dev/null 2>&1
	done
	settings4 "$s" "$2"
}

mac_of() {
	ip -n "$1" -o link show "$2" | sed -E 's/.*link.ether ([0-9a-f:]+).*/\1/'
}

# transcript FILE TAG PORT RP_FILTER: PORT is kernel, or that of the library.
transcript() {
	local port=$3 preload=

	[[ $port != card ]] || local NETNS_CARD=1
	hosts "$2" "$4" "$port"
	[[ $port == kernel ]] || preload=$lib
	netns_spawn "$1.target" "s$2" "$preload" "${python[@]}" tests/replies/target.py v0 "${addresses[@]}" ||
		die "the target does not start: $(< "$1.target")"
	netns_run "c$2" "" "${python[@]}" tests/replies/replies.py "$family" v0 "$(mac_of "s$2" v0)" "$4" \
		w0 "$(mac_of "s$2" w0)" > "$1"
	[[ $? == 0 ]] || {
		tail -n 5 "$1" "$1.target"
		return 1
	}
}

# transcripts PORT: at each rp_filter, one after the other.
transcripts() {
	local rp_filter

	for rp_filter in "${rp_filters[@]}"; do
		transcript "$netns_tmp/$1.$rp_filter" "$rp_filter$1" "$1" "$rp_filter" || return 1
	done
	cat "$netns_tmp/$1".? > "$netns_tmp/$1"
}

compare() {
	"${python[@]}" tests/replies/compare.py "$netns_tmp/kernel" "$netns_tmp/$1" tests/replies/intended.txt "$family" "$1"
}

transcripts kernel > $netns_tmp/kernel.out 2>&1 &
kernel=$!
for port in "${ports[@]}"; do
	check "$port: with the library" transcripts "$port"
	[[ ! $kernel ]] || check "the kernel alone" wait "$kernel" || cat $netns_tmp/kernel.out
	kernel=
	check "$port: there are 800 inputs at least" [ "$(grep -c '^#' "$netns_tmp/$port")" -ge 800 ]
	check "... it is accelerated" [ ! -s <(grep 'VMA' "$netns_tmp/$port".?.target) ]
	check "... what is answered and received is the same" compare "$port"
done
[[ " ${ports[*]} " != *" card "* ]] || check "the card served the program, and nothing was violated" cards_good $(printf "s%scard " "${rp_filters[@]}")
[[ ! ${KEEP:-} ]] || cp $netns_tmp/kernel "${ports[@]/#/$netns_tmp/}" "$KEEP"
verdict
