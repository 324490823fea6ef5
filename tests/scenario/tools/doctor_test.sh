#!/bin/bash
# vma doctor finds what is wrong, and says what mends it: a machine broken in one
# way after the other, and whole in between.
#
#	c  v0 10.9.0.1 -- v0 10.9.0.2  s
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

vma=$(find_program "${VMA:-tools/vma/vma}") || exit 1
occupant=$(find_program "${OCCUPANT:-tests/scenario/tools/occupant}") || exit 1
probe=$(netns_find_probe) || exit 1
cp "$vma" "$probe" $netns_tmp # any user can run them there
NETNS_VETH_QUEUES=1 netns_pair ""
around=()
out=$netns_tmp/doctor

# doctor ARG...: its exit status, and what it said in $out.
doctor() {
	in_ns c "${around[@]}" $netns_tmp/vma doctor "$@" > $out 2>&1
}

# says STATUS WORDS ARG...: so it ends, and some line has the words.
says() {
	local rc

	doctor "${@:3}"
	rc=$?
	((rc == $1)) && grep -qE -- "$2" $out && return
	echo "status $rc:"
	cat $out
	return 1
}

# mends WORDS: what it advised last.
mends() {
	grep -qE -- "$1" $out
}

# What the machine itself is does not matter here: a slow clock, one processor.
whole() {
	doctor "$@"
	grep -qE '^ok +v0 ' $out && ! grep -q '^blocks' $out && return
	cat $out
	return 1
}

check "nothing is wrong" whole
check "... nor by name" whole v0
check "... nor for one that attaches" whole --attach v0
check "... which leaves nothing attached" eval '! netns_has_xdp c v0'
check "... and says how it is accelerated" grep -q 'v0: accelerated with native XDP' $out
check "brief: nothing is said about v0" eval '
	doctor --brief; ! grep -q "^ok\|^note\|v0" $out'

around=(setpriv --bounding-set=-net_admin,-net_raw,-bpf,-sys_admin)
check "capabilities are missing" says 2 '^blocks +privileges .*CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF'
check "... ambient ones are the way" mends 'mend: .*--ambient-caps'
around=(setpriv --bounding-set=-bpf,-sys_admin)
check "... one of them" says 2 '^blocks +privileges .*lacks CAP_BPF$'
around=(prlimit --memlock=65536 setpriv --bounding-set=-ipc_lock)
check "locked memory is limited" says 2 '^blocks +locked memory .* 64 KB'
check "... ulimit is the way" mends 'mend: ulimit -l unlimited'
around=(unshare --user --map-root-user)
check "a user namespace" says 2 '^blocks +privileges .*refuses to make a BPF map'
around=(taskset -c 0)
check "one processor" says 1 '^slow +processors .*one only'
check "... not polling is the way" mends 'VMA_RX_POLL=0'
around=()

ip -n c link set v0 down
check "the interface is down" says 2 '^blocks +v0 .*it is down' v0
check "... up is the way" mends 'ip link set v0 up'
check "... then no interface is left" says 2 '^blocks +interfaces .*no Ethernet interface'
ip -n c link set v0 up
ip -n s link set v0 down
check "the other end is down" says 2 '^blocks +v0 .*no carrier' v0
ip -n s link set v0 up
await 30 netns_is_up c v0 || die "the link stays down"
check "up again" whole

ip -n c link set v0 mtu 16000
check "frames too large" says 2 'MTU of 16000 does not fit' v0
check "... a smaller MTU is the way" mends 'ip link set v0 mtu 9216'
ip -n c link set v0 mtu 1500
in_ns c ip tuntap add d0 mode tap || die "no tap device"
check "a kind that was not tried" says 2 '^blocks +d0 .*kind tun' d0
check "... it can be allowed" mends 'VMA_XDP_DEVICES=tun'
check "there is no such interface" says 2 '^blocks +nothere .*no such interface' nothere
ip -n c link add b0 type bridge && ip -n c link set v0 master b0 || die "no bridge"
check "it belongs to a bridge" says 2 '^blocks +v0 .*belongs to b0' v0
check "... out is the way" mends 'ip link set v0 nomaster'
check "... the bridge itself" says 2 '^blocks +b0 .*kind bridge' b0
ip -n c link set v0 nomaster
ip -n c link del b0

netns_spawn $netns_tmp/occupant c "" "$occupant" v0 || die "no occupant"
check "another XDP program" says 2 '^blocks +v0 .*XDP program [0-9]+ \(occupant\)' v0
check "... its end is the way" mends 'ip link set v0 xdp off'
netns_kill $spawned
await 30 eval '! netns_has_xdp c v0' || die "the program stays"

# Another user's process has the interface; one of this user shares it.
caps=+net_admin,+net_raw,+bpf,+ipc_lock
around=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=$caps --ambient-caps=$caps)
netns_spawn $netns_tmp/other c "$lib" $netns_tmp/probe serve udp:7000:recv || die "no server"
around=()
check "another user's process has it" says 2 '^blocks +v0 .*accelerated process has it' v0
check "... the same user is the way" mends 'same user'
netns_kill $spawned
await 30 eval '! netns_has_xdp c v0' || die "the program stays"
netns_spawn $netns_tmp/same c "$lib" $netns_tmp/probe serve udp:7000:recv || die "no server"
check "this user's process shares it" whole --attach v0
netns_kill $spawned

# An interface with other queues.
ip -n c link del v0
NETNS_VETH_QUEUES=2 netns_join ""
netns_up c v0 $netns_client
netns_up s v0 $netns_server
await 30 netns_is_up c v0 || die "the link stays down"
in_ns c ethtool -L v0 rx 1 tx 1 || die "no queues"
check "fewer queues than processors" says 1 '^slow +v0 .*uses 1 RX queue, and' v0
check "... more of them is the way" mends 'ethtool -L v0 (rx|combined) 2'
check "the other end sends by more queues: generic XDP" says 1 '^slow +v0 ' --attach v0
check "... it is said" grep -q 'v0: accelerated with generic XDP' $out

verdict
