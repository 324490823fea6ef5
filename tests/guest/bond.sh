#!/bin/bash
# Traffic over bonds while their slaves change; run in the guest (tools/guest), whose kernel has bonds.
#
#	tests/guest/bond.sh MODE
#
# active-backup: the slaves are on one switch, so that all of them get what is sent to all.
#
#	c  v0 10.9.0.1 = p0, p1 ---- b0 (bridge, w) ---- p0, p1 = v0 10.9.0.2  s
#
# 802.3ad: a pair of veth for each slave; the kernels of both sides speak LACP.
#
# The same runs over the kernel first, which says how many datagrams the changes may lose.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
NETNS_LIMIT=${NETNS_LIMIT:-1100}
NETNS_READY=120
netns_enter "$self" "$@"
netns_needs_lib
mode=${1:?}
[[ $mode == active-backup || $mode == 802.3ad ]] || die "no such mode: $mode"
probe=$(netns_find_probe) || exit 1
find_python
library=$lib
window=8  # of steady.py
enough=64 # answers, and blocks
changes=0

# ---- what has happened ---------------------------------------------------------------

# field N: of the client's state: 1 UDP answers, 2 TCP blocks, 3 lost, 4 duplicates.
field() {
	local fields

	read -ra fields < $netns_tmp/state && echo "${fields[$1 - 1]}"
}

has_grown() {
	(($(field 1) >= $1 && $(field 2) >= $2))
}

# goes_on WHAT: both kinds of traffic do.
goes_on() {
	local answers=$(field 1) blocks=$(field 2)

	check "$tag: $1: traffic goes on" await 60 has_grown $((answers + enough)) $((blocks + enough)) && return
	echo "     $answers answers and $blocks blocks before, $(field 1) and $(field 2) now"
	return 1
}

# sent_by SLAVE: frames that the client's slave has sent, as its other end counts them.
sent_by() {
	if [[ $mode == active-backup ]]; then
		cat_in w c"$1"/statistics/rx_packets
	else
		cat_in s "$1"/statistics/rx_packets
	fi
}

# leaves_by SLAVE OTHER: of many frames, only a few of the kernel's leave by the other.
leaves_by() {
	local now=$(sent_by "$1") other=$(sent_by "$2")

	goes_on "the frames of $1" || return 1
	now=$(($(sent_by "$1") - now))
	other=$(($(sent_by "$2") - other))
	((now >= enough && other <= 20)) && return
	echo "     $now by $1, $other by $2"
	return 1
}

# Datagrams and segments that passed the kernels of both sides.
passed_kernel() {
	local side one all=0

	for side in c s; do
		for one in $(netns_counters $side UdpInDatagrams UdpOutDatagrams TcpInSegs TcpOutSegs); do
			all=$((all + one))
		done
	done
	echo $all
}

is_bypassed() {
	local now=$(passed_kernel)

	((now - passed <= 20)) && return
	echo "     $((now - passed)) packets passed the kernel"
	return 1
}

has_program() {
	[[ -z $lib ]] || await 60 netns_has_xdp "$1" "$2"
}

has_no_program() {
	! netns_has_xdp c p0 && ! netns_has_xdp c p1
}

is_up_slave() {
	[[ $(cat_in c "$1"/bonding_slave/mii_status) == up ]]
}

# ---- changes -------------------------------------------------------------------------

# activate SLAVE: on both sides.
activate() {
	changes=$((changes + 1))
	check "$tag: $1 becomes active" eval "await 30 bond_activate c $1 && await 30 bond_activate s $1"
}

# settled N [SLAVE]: N slaves are in use, SLAVE is the active one; on the client's side.
settled() {
	changes=$((changes + 1))
	if [[ $mode == active-backup ]]; then
		check "$tag: $2 is active" await 60 bond_is_active c "$2"
	else
		check "$tag: $1 of the slaves are active" eval \
			"await 60 bond_is_aggregated c $1 && await 60 bond_is_aggregated s $1"
	fi
}

# pull SLAVE OTHER: the client's link goes down, and comes up.
pull() {
	local ns=w port=c$1

	[[ $mode == active-backup ]] || ns=s port=$1
	ip -n $ns link set "$port" down
	settled 1 "$2" || return 1
	check "$tag: $2 sends for $1, whose link is down" leaves_by "$2" "$1"
	ip -n $ns link set "$port" up
	check "$tag: the link of $1 is up" await 60 is_up_slave "$1"
	settled 2 "$2"
	goes_on "after the link was down"
}

# take_out SLAVE OTHER: the client's bond loses a slave, and gets it again.
take_out() {
	ip -n c link set "$1" nomaster
	settled 1 "$2" || return 1
	check "$tag: $2 sends without $1" leaves_by "$2" "$1"
	ip -n c link set "$1" down
	ip -n c link set "$1" master v0 && ip -n c link set "$1" up
	check "$tag: $1 is a slave again" await 60 is_up_slave "$1"
	settled 2 "$2"
	goes_on "after $1 was added"
	check "$tag: $1 has a program" has_program c "$1"
}

change_slaves() {
	if [[ $mode == active-backup ]]; then
		check "$tag: p0 sends" leaves_by p0 p1
		activate p1 && check "$tag: p1 sends" leaves_by p1 p0
		activate p0 && check "$tag: p0 sends again" leaves_by p0 p1
	fi
	pull p0 p1
	take_out p0 p1
	[[ $mode != active-backup ]] || { activate p0 && check "$tag: the new slave sends" leaves_by p0 p1; }
	take_out p1 p0
}

# ---- one run -------------------------------------------------------------------------

serve() {
	netns_spawn $netns_tmp/server s "$lib" $python tests/guest/echo.py serve $netns_server 5600 ||
		die "no server: $(tail -n 3 $netns_tmp/server)"
	server=$spawned
}

ask() {
	rm -f $netns_tmp/state
	netns_spawn $netns_tmp/client c "$lib" $python tests/guest/steady.py $netns_server 5600 $netns_tmp/state ||
		die "no client: $(tail -n 3 $netns_tmp/client)"
	client=$spawned
}

# run LIB TAG
run() {
	local side slave

	lib=$1 tag=$2
	serve
	ask
	passed=$(passed_kernel)
	goes_on "at first"
	if [[ -n $lib ]]; then
		check "$tag: nothing passes the kernel" is_bypassed
		for side in c s; do
			for slave in p0 p1; do
				check "$tag: $slave of $side has a program" has_program $side $slave
			done
		done
	fi
	change_slaves
	[[ -z $lib ]] || check "$tag: nothing has passed the kernel, at the end" is_bypassed
	kill -TERM $client
	check "$tag: the client ends" await 60 is_gone $client
	check "$tag: no byte is wrong, no connection has ended" wait $client
	sed 's/^/     /' $netns_tmp/client
	check "$tag: no datagram comes twice" test "$(field 4)" = 0
	lost=$(field 3)
}

NETNS_BOND=$mode
netns_pair ""
vma_env=(VMA_TRACELEVEL=info VMA_LOG_FILE=$netns_tmp/vma.log)
run "" kernel
netns_kill $server
kernel_lost=$lost
changes=0
run "$library" vma
# A change costs at most what is on its way.
check "vma: the kernel lost $kernel_lost datagrams, $lost were lost" test "$lost" -le $((kernel_lost + changes * window))
check "vma: a line tells the mode and the slaves" grep -q "v0: bond in mode $mode of p0, p1" $netns_tmp/vma.log
check "vma: no warning" test "$(warnings $netns_tmp/vma.log)" = 0
grep -E 'VMA (WARN|ERR)' $netns_tmp/vma.log | head -n 5

# The bond goes while it is used.
ask
ip -n c link del v0
check "vma: without the bond the slaves lose their programs" await 60 has_no_program
check "vma: the program goes on" kill -0 $client
netns_kill $client $server
verdict
