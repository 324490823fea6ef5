#!/bin/bash
# Accelerated connections receive ICMP errors from routers: a path has a smaller MTU than the
# interface, a destination is unreachable.
#
#	c  v0 10.9.0.1 --- r0 10.9.0.254  r  r1 10.9.1.254 --- v0 10.9.1.2  s
#	MTU 1500                   1500 or 1300                    1500
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
NETNS_LIMIT=${NETNS_LIMIT:-850}
. tools/lib/netns.sh
netns_enter "$self" "$@"

bulk=$(find_program tests/interop/bulk) || exit 1
probe=$(netns_find_probe) || exit 1
server=10.9.1.2
vma_env=(VMA_TRACELEVEL=debug)

for ns in c r s; do netns_new $ns; done
ip link add v0 netns c type veth peer name r0 netns r && ip link add v0 netns s type veth peer name r1 netns r ||
	die "no veth"
netns_up c v0 10.9.0.1
netns_up r r0 10.9.0.254
netns_up r r1 10.9.1.254
netns_up s v0 $server
ip -n c route add default via 10.9.0.254
ip -n s route add default via 10.9.1.254
in_ns r sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward' || die "no forwarding"
# No rate limit for ICMP errors, and one segment per frame.
in_ns r sh -c 'echo 0 > /proc/sys/net/ipv4/icmp_ratelimit'
for ns in c s; do
	await 30 netns_is_up $ns v0 || die "the link stays down"
	in_ns $ns ethtool -K v0 tx off tso off gso off gro off > /dev/null 2>&1
done
for nic in r0 r1; do in_ns r ethtool -K $nic gro off tso off gso off > /dev/null 2>&1; done

# transfer LIB-OF-CLIENT LIB-OF-SERVER DIRECTION
transfer() {
	local rc=0

	netns_spawn $netns_tmp/serve s "$2" "$bulk" serve $server 7000 || return 1
	netns_run c "$1" "$bulk" go $server 7000 "$3" 3000000 2 30 > $netns_tmp/go || rc=1
	kill -TERM $spawned
	wait $spawned || rc=1
	((rc == 0)) || tail -n 3 $netns_tmp/go $netns_tmp/serve
	return $rc
}

# Its first segments are refused, then smaller ones pass: it received the ICMP error.
was_told() {
	[[ -z $lib ]] || grep -q 'ICMP: Message too long, smaller segments' "$1"
}

ip -n r link set r1 mtu 1300
check "a client's segments fit the path" transfer "$lib" "" up
check "because it was configured" was_told $netns_tmp/go
ip -n r link set r1 mtu 1500
ip -n r link set r0 mtu 1300
check "a server's segments fit the path" transfer "" "$lib" down
check "because it was configured" was_told $netns_tmp/serve
ip -n r link set r0 mtu 1500

# same_errors ADDRESS: the same as with the kernel. With the kernel, the result of poll(2) depends
# on whether it runs before or after the socket is closed.
same_errors() {
	netns_run c "" "$probe" errors tcp "$1" 7000 | grep -v revents > $netns_tmp/errors.kernel
	vma_env=(VMA_TRACELEVEL=warn)
	netns_run c "$lib" "$probe" errors tcp "$1" 7000 | grep -v revents > $netns_tmp/errors
	[[ -s $netns_tmp/errors ]] || return 1
	diff $netns_tmp/errors.kernel $netns_tmp/errors
}

ip -n r route add unreachable 10.9.1.98
ip -n r route add prohibit 10.9.1.97
check "an unreachable host" same_errors 10.9.1.98
check "a prohibited one" same_errors 10.9.1.97
verdict
