#!/bin/bash
# An RDMA device that is no card, in an emulated machine: rxe.sh.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
LIB=${LIB-$(netns_find_lib)}
PROBE=$(find_program tests/scenario/probe) || exit 1
VMA=$(find_program tools/vma/vma) || exit 1
export LIB=$(realpath "$LIB") PROBE VMA
exec tools/guest --nic veth --limit 300 tests/guest/rxe.sh
