#!/bin/bash
# sockperf over UDP in its three modes, blocking and not.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	sockperf pp, tp, ul       sockperf server
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tests/scenario/sockperf/sockperf.sh

for sides in server client both; do
	for mode in pp tp ul; do
		row $sides udp $mode
		row $sides udp $mode --nonblocked
	done
	# Sleep at once, sleep after a while, never sleep.
	row $sides udp ul VMA_RX_POLL=0
	row $sides udp pp VMA_RX_POLL=-1
done
# Dummy sends between its messages: none of them leaves.
for sides in client both; do
	row $sides udp ul client:--dummy-send
done
run_rows
