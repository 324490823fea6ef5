#!/bin/bash
# The most important tests on two drivers, igb and virtio_net, both with zero-copy, in an emulated
# machine.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
LIB=${LIB-$(netns_find_lib)}
RELAY=$(find_program tests/scenario/relay) || exit 1
PROBE=$(find_program tests/scenario/probe) || exit 1
export LIB=$(realpath "$LIB") RELAY PROBE ROW_QUICK=1 RATE=1
exec tools/guest --nic igb --queues 2 --nic virtio --queues 4 --zero-copy --limit 400 \
	tests/guest/rows.sh smoke '^smoke-(igb|virtio-zc-4)$'
