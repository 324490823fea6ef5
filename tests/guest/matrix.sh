#!/bin/bash
# The whole matrix: every driver on the newest kernel, veth and virtio_net on the kernels of Debian
# 11, 12 and 13.  tools/guest --all [REGEX]
#
# Before Linux 6.4 processes cannot share an interface: no process stays attached there.
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 2
chosen=${1:-.}
failed=0
rows=$(mktemp -d)
trap 'rm -rf "$rows"' EXIT

# boot LABEL KERNEL ARG...: a guest with these NICs; only: a regular expression instead of the
# chosen rows.
boot() {
	tools/guest --kernel "$2" --limit 1800 --out "$rows" "${@:3}" \
		tests/guest/rows.sh "$1" "${only:-$chosen}" || failed=$((failed + 1))
}

# wanted NAME...: does this boot have a chosen row?
wanted() {
	printf '%s\n' "$@" | grep -qE -- "$chosen"
}

export LIB=${LIB:-$PWD/bazel-bin/libvma.so} VMA=${VMA:-$PWD/bazel-bin/tools/vma/vma}
unset GUEST_ENVIRONMENT # of the caller: guests have their own, with its settings
! wanted new-{veth-1,veth-jumbo,veth-vlan,veth-4,igb,igb-copy,virtio-4,virtio-1,virtio-jumbo,virtio-vlan,virtio-zc-4,virtio-zc-spare,vmxnet3,e1000e} ||
	boot new newest --nic igb --queues 2 --nic virtio --queues 4 --nic virtio --queues 4 --zero-copy \
		--nic vmxnet3 --nic e1000e
! wanted new-virtio-zc-1 || only='^new-virtio-zc-1$' boot new newest --nic virtio --queues 1 --zero-copy
for mode in ab lacp; do
	! wanted new-bond-$mode || only="^new-bond-$mode\$" boot new newest --nic veth
done
! wanted new-rxe || only='^new-rxe$' boot new newest --nic veth
for kernel in 6.12 6.1 5.10; do
	names=(veth-1 virtio-4 virtio-1)
	[[ $kernel == 6.12 ]] || names+=(rxe)
	[[ $kernel != 6.12 ]] || names+=(veth-jumbo veth-vlan virtio-jumbo virtio-vlan)
	! wanted "${names[@]/#/$kernel-}" || {
		[[ $kernel == 6.12 ]] || export SHARES=0
		boot $kernel $kernel --nic virtio --queues 4
	}
done
echo
echo "driver | XDP | frames | UDP: kernel / accelerated | TCP | interrupts a message"
sed 's/^ROW //' "$rows/rows" 2> /dev/null
((failed == 0)) || echo "$failed boots with failures"
((failed == 0))
