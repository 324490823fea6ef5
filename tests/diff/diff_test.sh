#!/bin/bash
# One suite of the differential tests, see diff.h.
#
#	diff_test.sh [-6 | -n] [-l | -c] [-v] SUITE [BEHAVIOUR... | -BEHAVIOUR...]
#
# -BEHAVIOUR: all but these.
# -6: with AF_INET6 sockets and IPv4-mapped addresses (mapped.c).
# -n: with AF_INET6 sockets and addresses of IPv6 (mapped.c).
# -l: both sides are on one host, and with the library they talk through shared memory.
# -c: each side has an emulated ConnectX card (tests/mlx5).
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

local=
if [[ $1 == -6 ]]; then
	export DIFF_FAMILY=6
	shift
elif [[ $1 == -n ]]; then
	export DIFF_FAMILY=native
	shift
fi
if [[ $1 == -l ]]; then
	local=1
	export VMA_LOCAL=1 DIFF_LOCAL=1
	shift
elif [[ $1 == -c ]]; then
	export NETNS_CARD=1
	shift
fi
verbose=()
if [[ $1 == -v ]]; then
	verbose=(-v)
	shift
fi
diff=$(find_program tests/diff/diff) || exit 1

# one_host MODE SUITE: both sides are in one namespace, which has two names.
one_host() {
	netns_new "s$1"
	ip -n "s$1" addr add $netns_client/24 dev lo
	ip -n "s$1" addr add $netns_server/24 dev lo
	ip -n "s$1" route add 224.0.0.0/4 dev lo
	[[ $2 != dual && ${DIFF_FAMILY:-} != native ]] || netns_ip6 "s$1" lo fd00:9::1/64 fd00:9::2/64
	touch "/run/netns/c$1" && mount --bind "/run/netns/s$1" "/run/netns/c$1" || die "no second name"
}

# second_link MODE
second_link() {
	ip link add v1 netns "c$1" type veth peer name v1 netns "s$1"
	netns_up "c$1" v1 10.9.1.1
	netns_up "s$1" v1 10.9.1.2
	ip -n "c$1" addr add 10.9.0.3/24 dev v0
	await 30 netns_is_up "c$1" v1 && await 30 netns_is_up "s$1" v1 || die "the second link stays down"
}

# with_more_ipv6 MODE: after netns_link_local.
with_more_ipv6() {
	netns_pair_ip6 "$1"
	netns_ip6 "c$1" v1 fd00:9:1::1/64
	netns_ip6 "s$1" v1 fd00:9:1::2/64
	netns_ip6 "c$1" v0 fd00:9::3/64
}

# with_ipv6 MODE
with_ipv6() {
	local side

	for side in "c$1" "s$1"; do
		# While the link-local address is tentative, the library sends a datagram by the kernel.
		in_ns "$side" sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.v0.accept_dad=0
	done
	netns_pair_ip6 "$1"
	with_nobody "$1" fd00:9::9
}

# with_nobody MODE ADDRESS: nobody answers there, for however long.  A neighbour that has to be resolved
# fails after three seconds, and counts for a while: all namespaces of the machine share a table of 1,024,
# and when it is full, the kernel drops what is sent to a new one.
with_nobody() {
	local ns

	for ns in "c$1" "s$1"; do
		ip -n "$ns" neigh add "$2" lladdr 02:00:00:00:00:09 dev v0 nud permanent || die "no neighbour $2"
	done
}

# prepare MODE SUITE: its namespaces.
prepare() {
	local ns

	if [[ $local ]]; then
		one_host "$1" "$2"
	else
		netns_pair "$1"
		with_nobody "$1" 10.9.0.9
	fi
	for ns in "c$1" "s$1"; do
		# The number of answers from closed ports must not depend on earlier ones.
		in_ns "$ns" sh -c 'echo 0 > /proc/sys/net/ipv4/icmp_ratelimit'
		in_ns "$ns" sh -c 'echo 0 > /proc/sys/net/ipv6/icmp/ratelimit'
		# The default of the library: VMA_TCP_CC_ALGO.
		in_ns "$ns" sh -c 'echo reno > /proc/sys/net/ipv4/tcp_congestion_control'
	done
	[[ $2 != mcast && $2 != mcast6 && $2 != scope ]] || second_link "$1"
	[[ $2 != mcast6 && $2 != scope ]] || netns_link_local "$1" v0 v1
	[[ $2 != mcast6 ]] || with_more_ipv6 "$1"
	[[ $local || ($2 != dual && ${DIFF_FAMILY:-} != native) ]] || with_ipv6 "$1"
}

# The kernel stamps what it receives while a socket of the machine asks for it, and begins a moment after the
# first one has: this one asks all the time.
keep_stamps() {
	netns_spawn $netns_tmp/stamps s0 "" /usr/bin/python3 -c '
import signal, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 37, 8 | 16)  # SO_TIMESTAMPING: RX_SOFTWARE, SOFTWARE
s.bind(("127.0.0.1", 0))
s.connect(s.getsockname())
s.send(b"x")
while not s.recvmsg(1, 200)[1]:
    s.send(b"x")
print("ready", flush=True)
signal.pause()' || die "the kernel does not stamp: $(< $netns_tmp/stamps)"
}

modes=(0 1 2 3)
[[ ! $local ]] || modes=(0 3)
for mode in "${modes[@]}"; do
	prepare "$mode" "$1"
done
[[ $1 != cmsg ]] || keep_stamps
"$diff" run "${verbose[@]}" "$lib" tests/diff/intended.txt "$@" || exit
netns_conclude
# The sides with the library in modes 1 to 3.
[[ ! ${NETNS_CARD:-} ]] || cards_good s1 c2 s3 c3
