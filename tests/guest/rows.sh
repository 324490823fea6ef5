#!/bin/bash
# The rows of one boot, run in the guest: on its NICs, and on veth.
#
#	tests/guest/rows.sh LABEL [REGEX]
#
# LABEL stands in front of each name.  REGEX chooses among the rows.
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 2
label=$1
chosen=${2:-.}
failed=0
ran=0

# row NAME NICS NAME=VALUE...
row() {
	[[ $label-$1 =~ $chosen ]] || return
	ran=$((ran + 1))
	echo "--- $label-$1"
	env NETNS_NICS="$2" "${@:3}" tests/guest/row.sh "$label-$1" || failed=$((failed + 1))
}

# veth: without NICs, so that netns_pair creates a pair.
veth() {
	[[ $label-$1 =~ $chosen ]] || return
	ran=$((ran + 1))
	echo "--- $label-$1"
	env -u NETNS_NICS NETNS_VETH_QUEUES="$2" "${@:3}" tests/guest/row.sh "$label-$1" || failed=$((failed + 1))
}

# bond NAME MODE: of two pairs of veth: the most important tests, and changes.
bond() {
	[[ $label-$1 =~ $chosen ]] || return
	ran=$((ran + 1))
	echo "--- $label-$1"
	env -u NETNS_NICS NETNS_BOND="$2" ROW_QUICK=1 RATE=1 tests/guest/row.sh "$label-$1" &&
		tests/guest/bond.sh "$2" || failed=$((failed + 1))
}

# rxe NAME: an RDMA device that is no card, on virtio_net if there is one.
rxe() {
	[[ $label-$1 =~ $chosen ]] || return
	ran=$((ran + 1))
	echo "--- $label-$1"
	env NETNS_NICS="${GUEST_NICS_virtio:-}" tests/guest/rxe.sh || failed=$((failed + 1))
}

# Frames in pieces, and generic XDP on VLAN devices: from Linux 6.6 on.
has_6_6() {
	[[ $(printf '%s\n' 6.6 "$(uname -r)" | sort -V | head -n 1) == 6.6 ]]
}

veth veth-1 1
! has_6_6 || veth veth-jumbo 1 NETNS_MTU=9000
! has_6_6 || veth veth-vlan 1 NETNS_VLAN=5
if [[ -n ${GUEST_NICS_igb:-} ]]; then
	veth veth-4 4
	row igb "$GUEST_NICS_igb" ZERO_COPY=1
	row igb-copy "$GUEST_NICS_igb" ROW_OPTIONS=VMA_XDP_ZEROCOPY=0
fi
if [[ -n ${GUEST_NICS_virtio:-} ]]; then
	row virtio-4 "$GUEST_NICS_virtio"
	row virtio-1 "$GUEST_NICS_virtio" ROW_QUEUES=1
	! has_6_6 || row virtio-jumbo "$GUEST_NICS_virtio" NETNS_MTU=9000
	! has_6_6 || row virtio-vlan "$GUEST_NICS_virtio" NETNS_VLAN=5
fi
if [[ -n ${GUEST_NICS_virtio_zc:-} ]]; then
	queues=(/sys/class/net/"${GUEST_NICS_virtio_zc%% *}"/queues/rx-*)
	row virtio-zc-${#queues[@]} "$GUEST_NICS_virtio_zc" ZERO_COPY=1 MASKED='-input[.]'
	# With spare queues the driver adds some, and removes them: no zero-copy.
	((${#queues[@]} == 1)) || row virtio-zc-spare "$GUEST_NICS_virtio_zc" ZERO_COPY=0 ROW_QUEUES=1
fi
[[ -z ${GUEST_NICS_vmxnet3:-} ]] || row vmxnet3 "$GUEST_NICS_vmxnet3"
[[ -z ${GUEST_NICS_e1000e:-} ]] || row e1000e "$GUEST_NICS_e1000e"
# With --nic veth.
if [[ -n ${NETNS_VETH_QUEUES:-} ]]; then
	bond bond-ab active-backup
	bond bond-lacp 802.3ad
	rxe rxe
elif ! has_6_6; then
	rxe rxe
fi
echo "$ran rows, $failed failed"
((ran > 0 && failed == 0))
