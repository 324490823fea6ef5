#!/bin/bash
# sockperf over TCP in its three modes, blocking and not.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	sockperf pp, tp, ul       sockperf server
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tests/scenario/sockperf/sockperf.sh

for sides in server client both; do
	for mode in pp tp ul; do
		row $sides tcp $mode
		row $sides tcp $mode --nonblocked
	done
	# Sleep at once, never sleep; Nagle's algorithm.
	row $sides tcp ul VMA_RX_POLL=0
	row $sides tcp pp VMA_RX_POLL=-1
	row $sides tcp tp --tcp-avoid-nodelay
done
# Dummy sends between its messages: none of them leaves.
for sides in client both; do
	row $sides tcp ul client:--dummy-send
done
run_rows
