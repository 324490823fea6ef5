#!/bin/bash
# Bonds in an emulated machine: bond_test.sh MODE, as of bond.sh.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
LIB=${LIB-$(netns_find_lib)}
PROBE=$(find_program tests/scenario/probe) || exit 1
export LIB=$(realpath "$LIB") PROBE
exec tools/guest --nic veth --limit 1200 tests/guest/bond.sh "${1:?}"
