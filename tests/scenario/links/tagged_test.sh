#!/bin/bash
# A frame of a VLAN is not for the socket of the interface beneath, whether its tag is in the frame,
# or beside it, as the kernel carries it where the sending device has tx-vlan-offload.  A tag of
# priority alone is for it.
#
#	c  v0 10.9.0.1 --- a  m: bridge  b --- v0 10.9.0.2  s
#	sends                 offloads the tag or not       receives
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
needs ethtool
netns_enter "$self" "$@"

tagged=tests/scenario/links/tagged.py
log=$netns_tmp/serve
mac=02:00:00:00:00:02

for name in c m s; do
	netns_new $name
done
ip link add name v0 netns c type veth peer name a netns m
ip link add name v0 netns s address $mac type veth peer name b netns m
ip -n m link add name br type bridge
for port in a b br; do
	ip -n m link set dev $port up
	[[ $port == br ]] || ip -n m link set dev $port master br
done
netns_up c v0 $netns_client
netns_up s v0 $netns_server
await 30 in_ns c ping -c 1 -W 1 $netns_server || die "the bridge does not forward"
netns_spawn $log s "$lib" python3 $tagged serve 7000 || die "no receiver: $(cat $log)"

lines() {
	grep -c 'last$' $log
}

# receives TEXT: of what is sent
receives() {
	local before

	before=$(lines)
	in_ns c python3 $tagged send v0 $mac $netns_client $netns_server 7000
	await 30 eval "((\$(lines) > before))"
	[[ $(tail -n 1 $log) == "$1" ]] && return
	echo "     $(tail -n 1 $log)"
	return 1
}

for offload in on off; do
	in_ns m ethtool -K b tx-vlan-offload $offload > /dev/null
	check "tx-vlan-offload $offload: nothing of another VLAN" receives "priority last"
done
[[ -z $lib ]] || check "the receiving kernel delivered none" test "$(netns_counters s UdpInDatagrams)" = 0
verdict
