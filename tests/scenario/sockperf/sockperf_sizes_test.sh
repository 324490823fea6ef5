#!/bin/bash
# sockperf with messages from its smallest to its largest: below, at and above
# one frame.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	      MTU 1500               MTU 1500
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tests/scenario/sockperf/sockperf.sh

for sides in server client both; do
	for bytes in 14 100 1400 1472 1473 9000 65507; do
		row $sides udp pp -m$bytes
	done
	for bytes in 14 1448 1449 16384 65536; do
		row $sides tcp pp -m$bytes
	done
	row $sides tcp tp -m65536
	row $sides tcp ul -m16384
done
run_rows
