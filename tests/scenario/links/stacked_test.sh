#!/bin/bash
# Devices that have others below or above them, or of untested kinds, are left to the kernel, with
# one message; a VLAN on a device that may be attached is accelerated.
#
#	c<row>  d0 10.9.1.1 ~~ v0 ---------- v0 ~~ d0 10.9.1.2  s<row>
#
# d0 is what the row makes, on v0 or in its place.  A row that this kernel cannot make, or
# over which the kernel itself gets no answer, is left out.
#
#	STACKED_MIN=12 stacked_test.sh	fails with fewer rows (6)
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
[[ -c /dev/net/tun ]] || modprobe -q tun 2> /dev/null

probe=$(netns_find_probe) || exit 1
rows_min=${STACKED_MIN:-6}
vma_env=(VMA_TRACELEVEL=info)
ran=()
left_out=()

# both COMMAND...: runs it in both namespaces of the row; NS is the name of the namespace.
both() {
	in_row() { "${@//NS/$ns}"; }
	for ns in "c$row" "s$row"; do
		in_row "$@" || return 1
	done
}

# ---- creating the devices of a row; $row is its name ------------------------------

on_wire() {
	both ip -n NS link add link v0 name d0 type "$@"
}

# master KIND...: creates d0 with v0 as its member.
master() {
	both ip -n NS link set v0 down
	both ip -n NS link add d0 type "$@" || return 1
	# It does nothing before it gets this setting.
	[[ $1 != team ]] || both nsenter --net=/run/netns/NS -- tests/scenario/links/team_mode.py d0 roundrobin || return 1
	both ip -n NS link set v0 master d0 && both ip -n NS link set v0 up
}

make_bond() { master bond mode balance-rr miimon 50; }
make_team() { master team; }
make_bridge() { master bridge forward_delay 0; }
make_macvlan() { on_wire macvlan mode bridge; }
make_macvtap() { on_wire macvtap mode bridge; }
make_ipvlan_l2() { ip -n "c$row" link add link v0 name d0 type ipvlan mode l2 && plain_peer; }
make_ipvlan_l3() {
	ip -n "c$row" link add link v0 name d0 type ipvlan mode l3 && plain_peer
}
make_vlan() { on_wire vlan id 5; }
make_vlan_on_vlan() { both ip -n NS link add link v0 name w0 type vlan id 5 && both ip -n NS link set w0 up && both ip -n NS link add link w0 name d0 type vlan id 6; }
make_vlan_on_bond() { make_bond && both ip -n NS link set d0 name w0 && both ip -n NS link set w0 up && both ip -n NS link add link w0 name d0 type vlan id 5; }
make_vlan_on_bridge_port() {
	both ip -n NS link add b0 type bridge && both ip -n NS link set v0 master b0 && both ip -n NS link set b0 up &&
		on_wire vlan id 5
}
make_vxlan() {
	ip -n "c$row" addr add 10.9.2.1/24 dev v0 && ip -n "s$row" addr add 10.9.2.2/24 dev v0 &&
		ip -n "c$row" link add d0 type vxlan id 5 dstport 4789 remote 10.9.2.2 dev v0 &&
		ip -n "s$row" link add d0 type vxlan id 5 dstport 4789 remote 10.9.2.1 dev v0
}
make_gretap() {
	ip -n "c$row" addr add 10.9.2.1/24 dev v0 && ip -n "s$row" addr add 10.9.2.2/24 dev v0 &&
		ip -n "c$row" link add d0 type gretap remote 10.9.2.2 local 10.9.2.1 &&
		ip -n "s$row" link add d0 type gretap remote 10.9.2.1 local 10.9.2.2
}
make_netkit() { ip link add d0 netns "c$row" type netkit mode l2 peer name d0 netns "s$row"; }
make_tap() { wire_of_taps tap; }
make_tun() { wire_of_taps tun; }
wire_of_taps() {
	tests/scenario/links/taps.py "$1" d0 "c$row" "s$row" > $netns_tmp/taps 2>&1 &
	await 30 grep -q ready $netns_tmp/taps
}
# The device below a macvlan, the port of a bridge, and a member of a VRF, used directly.
make_under_macvlan() { alone && ip -n "c$row" link add link d0 name m0 type macvlan mode bridge && ip -n "c$row" link set m0 up; }
make_vrf() {
	alone && ip -n "c$row" link add vrf0 type vrf table 7 && ip -n "c$row" link set vrf0 up &&
		ip -n "c$row" link set d0 master vrf0 &&
		in_ns "c$row" sh -c 'for p in tcp udp; do echo 1 > /proc/sys/net/ipv4/${p}_l3mdev_accept; done'
}
# A device that may be attached.
make_veth() { alone; }

alone() {
	both ip -n NS link set v0 down
	both ip -n NS link set v0 name d0
}

# The peer has the address on the other end of the link itself.
plain_peer() {
	ip -n "s$row" link set v0 down
	ip -n "s$row" link set v0 name d0
}

mac_of() {
	ip -n "$1" -o link show "$2" | sed -E 's/.*link\/ether ([0-9a-f:]+).*/\1/'
}

has_carrier() {
	ip -n "$1" -o link show d0 | grep -q LOWER_UP
}

# make ROW: the namespaces, the link, and d0 with its addresses.
make() {
	row=$1
	netns_new "c$row"
	netns_new "s$row"
	ip link add v0 netns "c$row" type veth peer name v0 netns "s$row" || die "no veth"
	both ip -n NS link set v0 up
	"make_$row" 2> $netns_tmp/make || return 1
	netns_up "c$row" d0 10.9.1.1
	netns_up "s$row" d0 10.9.1.2
	# Its route uses the device below, where no host answers to ARP.
	[[ $row != ipvlan_l3 ]] || {
		ip -n "c$row" route add 10.9.1.0/24 dev v0 metric 100
		ip -n "s$row" neigh replace 10.9.1.1 lladdr "$(mac_of "c$row" v0)" dev d0
	}
	# A VRF has its own routes; this one is for sockets that are not bound to it.
	[[ $row != vrf ]] || ip -n "c$row" route add 10.9.1.0/24 dev d0
	await 30 has_carrier "c$row" && await 30 has_carrier "s$row"
}

# ---- checking a row ----------------------------------------------------------------

# asks LOG NAMESPACE LIB PROTOCOL ADDRESS
asks() {
	netns_run "$2" "$3" "$probe" ask "$4" "$5" 7000 10 > "$1"
	grep -q 'answers$' "$1" && return
	cat "$1"
	return 1
}

answered() {
	asks $netns_tmp/plain "s$row" "" "$1" 10.9.1.1
}

counters() {
	netns_counters "c$row" UdpInDatagrams TcpInSegs
}

# told LOG TIMES: the log has this number of lines about devices left to the kernel, about d0, and
# no warning.
told() {
	[[ -n $lib ]] || return 0
	[[ $(grep -c 'left to the kernel' "$1") == "$2" ]] &&
		{ [[ $2 == 0 ]] || grep -q 'VMA INFO: d0 .*left to the kernel: .*[a-z]' "$1"; } &&
		[[ $(warnings "$1") == 0 ]] && return
	cat "$1"
	return 1
}

# modes LOG TIMES [WORDS]: this number of lines tell how an interface is accelerated.
modes() {
	[[ -n $lib ]] || return 0
	[[ $(grep -c 'VMA INFO: .*: accelerated with' "$1") == "$2" ]] && grep -q "${3:-}" "$1" && return
	cat "$1"
	return 1
}

# No XDP program is attached; the underlying interface of a tunnel may have one.
has_no_xdp() {
	! ip -n "c$row" -o link show | grep -vE "^[0-9]+: (${tunnel:+v0}|-)@" | grep -E 'xdp|prog/'
}

# left ROW...: its traffic passes the kernel, in both directions.
left() {
	local row protocol saw

	for row in "$@"; do
		tunnel=
		[[ $row != vxlan && $row != gretap ]] || tunnel=1
		if ! make "$row" || ! netns_spawn $netns_tmp/server "s$row" "" "$probe" serve udp:7000:recv tcp:7000:recv ||
			! asks $netns_tmp/plain "c$row" "" tcp 10.9.1.2 > /dev/null; then
			left_out+=("$row")
			sed 's/^/    /' $netns_tmp/make
			continue
		fi
		ran+=("$row")
		for protocol in udp tcp; do
			saw=$(counters)
			check "$row: $protocol" asks $netns_tmp/log "c$row" "$lib" $protocol 10.9.1.2
			check "... reported once" told $netns_tmp/log 1
			check "... through the kernel" test "$saw" != "$(counters)"
		done
		[[ -z $lib ]] || grep -h 'left to the kernel' $netns_tmp/log
		netns_spawn $netns_tmp/log "c$row" "$lib" "$probe" serve udp:7000:recv tcp:7000:epoll || die "no server"
		for protocol in udp tcp; do
			saw=$(counters)
			check "$row: $protocol to a server" answered $protocol
			check "... through the kernel" test "$saw" != "$(counters)"
		done
		check "... without an XDP program" has_no_xdp
		check "... reported once" told $netns_tmp/log 1
		netns_kill $spawned
	done
}

# accelerated ROW [WHAT]: its traffic bypasses the kernel, in both directions.
accelerated() {
	local row=$1 protocol saw

	if [[ ! -e /run/netns/c$1 ]]; then
		make "$1" || { left_out+=("$1") && return; }
		netns_spawn $netns_tmp/server "s$1" "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"
		ran+=("$1")
	fi
	for protocol in udp tcp; do
		saw=$(counters)
		check "$1${2:+, $2}: $protocol" asks $netns_tmp/log "c$1" "$lib" $protocol 10.9.1.2
		check "... nothing to refuse" told $netns_tmp/log 0
		check "... how, reported once" modes $netns_tmp/log 1 "d0: accelerated with"
		[[ -z $lib ]] || check "... bypasses the kernel" test "$saw" = "$(counters)"
	done
	netns_spawn $netns_tmp/log "c$row" "$lib" "$probe" serve udp:7000:recv tcp:7000:epoll || die "no server"
	for protocol in udp tcp; do
		saw=$(counters)
		check "$row${2:+, $2}: $protocol to a server" answered $protocol
		[[ -z $lib ]] || check "... bypasses the kernel" test "$saw" = "$(counters)"
	done
	[[ -z $lib ]] || check "... with an XDP program" netns_has_xdp "c$row" d0
	check "$row: a process joins" asks $netns_tmp/second "c$row" "$lib" udp 10.9.1.2
	check "... does not report it again" modes $netns_tmp/second 0
	check "... the first did" modes $netns_tmp/log 1 "d0: accelerated with"
	netns_kill $spawned
}

left bond team bridge macvlan macvtap ipvlan_l2 ipvlan_l3 vlan_on_bond vlan_on_bridge_port vxlan gretap \
	netkit tap tun under_macvlan vrf
accelerated veth
accelerated vlan
accelerated vlan_on_vlan

# An untested kind that the user allows; and a kind that is refused nevertheless.
if [[ " ${ran[*]} " == *" tap "* ]]; then
	row=tap
	vma_env+=(VMA_XDP_DEVICES=ixgbe,tun)
	accelerated tap VMA_XDP_DEVICES=ixgbe,tun
fi
if [[ " ${ran[*]} " == *" macvlan "* ]]; then
	row=macvlan
	vma_env=(VMA_TRACELEVEL=info VMA_XDP_DEVICES=macvlan)
	check "macvlan, VMA_XDP_DEVICES=macvlan" asks $netns_tmp/log cmacvlan "$lib" udp 10.9.1.2
	check "... has no effect" told $netns_tmp/log 1
fi
vma_env=(VMA_TRACELEVEL=info)

# An interface becomes part of a bridge while it is accelerated.
row=veth
netns_spawn $netns_tmp/log cveth "$lib" "$probe" serve udp:7000:recv tcp:7000:epoll || die "no server"
check "before it is in a bridge: udp" answered udp
[[ -z $lib ]] || check "... accelerated" netns_has_xdp cveth d0
ip -n cveth link add b0 type bridge forward_delay 0 && ip -n cveth link set b0 up || die "no bridge"
saw=$(counters)
ip -n cveth link set d0 master b0
ip -n cveth addr del 10.9.1.1/24 dev d0
ip -n cveth addr add 10.9.1.1/24 dev b0
check "once it is: tcp" await 30 answered tcp
check "... udp" await 30 answered udp
check "... through the kernel" test "$saw" != "$(counters)"
check "... the bridge is reported" await 30 grep -q 'b0 (kind bridge) is left to the kernel' $netns_tmp/log

echo "rows: ${ran[*]}"
echo "left out: ${left_out[*]:-none}"
check "at least $rows_min rows" test ${#ran[@]} -ge $rows_min
verdict
