#!/bin/bash
# A packet to an unresolved neighbour waits for the resolution and is then sent; a neighbour that
# does not answer causes the kernel's errors.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	                             10.9.0.99 has no host
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
netns_pair ""
for ns in c s; do
	# The kernel gives up a neighbour after 3 x 0.2 s instead of 3 x 1 s.
	in_ns $ns sh -c 'echo 200 > /proc/sys/net/ipv4/neigh/v0/retrans_time_ms' || die "no sysctl"
done
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"
server=$spawned

forget() {
	ip -n c neigh flush all
	ip -n s neigh flush all
	[[ -z $(ip -n c neigh show $netns_server nud reachable) ]]
}

# says PATTERN NAMESPACE LIB ARG...: the output of the probe matches PATTERN, and there is no
# warning.
says() {
	netns_run "$2" "$3" "$probe" "${@:4}" > $netns_tmp/says
	grep -q "$1" $netns_tmp/says && ! grep -q 'VMA WARNING' $netns_tmp/says && return
	cat $netns_tmp/says
	return 1
}

same_errors() {
	netns_run c "" "$probe" errors "$@" > $netns_tmp/errors.kernel
	netns_run c "$lib" "$probe" errors "$@" > $netns_tmp/errors
	diff $netns_tmp/errors.kernel $netns_tmp/errors
}

for round in 1 2 3; do
	forget || die "a neighbour does not go"
	check "five datagrams at once wait for the neighbour" says "5 answers in order" c "$lib" burst $netns_server 7000 5
	forget
	check "a connection waits for the neighbour" says "1 answers" c "$lib" ask tcp $netns_server 7000 1
done
netns_kill $server

# The server's answer has to wait: it does not know the neighbour, because it got no request for its
# own address.
mac=$(ip -n s -o link show v0 | sed -E 's#.*link/ether ([0-9a-f:]+).*#\1#')
netns_spawn $netns_tmp/serve s "$lib" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"
for protocol in udp tcp; do
	ip -n s neigh flush all
	ip -n c neigh replace $netns_server lladdr "$mac" dev v0 nud permanent
	check "an answer by $protocol waits for the neighbour" says "3 answers" c "" ask $protocol $netns_server 7000 3
done
netns_kill $spawned
ip -n c neigh del $netns_server dev v0

check "an unreachable neighbour, udp: the kernel's errors" same_errors udp 10.9.0.99 7000
check "an unreachable neighbour, tcp: the kernel's errors" same_errors tcp 10.9.0.99 7000
check "... which are EHOSTUNREACH" grep -q '^connect EHOSTUNREACH' $netns_tmp/errors
verdict
