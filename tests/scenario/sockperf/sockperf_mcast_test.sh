#!/bin/bash
# sockperf over UDP multicast: the server answers to the group, or to the client.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	     in 224.9.9.9            in 224.9.9.9
#	sockperf pp, tp, ul       sockperf server
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tests/scenario/sockperf/sockperf.sh

for sides in server client both; do
	for mode in pp tp ul; do
		row $sides mcast $mode
		row $sides mcast $mode --nonblocked
	done
	row $sides mcast pp server:--force-unicast-reply
	row $sides mcast ul server:--force-unicast-reply --nonblocked
	row $sides mcast pp -m1472
done
run_rows
