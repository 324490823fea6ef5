#!/bin/bash
# sockperf with several sockets and each way of waiting: select, poll, epoll, recvfrom on one after
# the other.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	several sockets           several sockets, in the same file
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tests/scenario/sockperf/sockperf.sh

for sides in server client both; do
	for iomux in s p e r; do
		row $sides udp,udp,udp pp -F$iomux
		row $sides tcp,tcp,tcp pp -F$iomux --nonblocked
		# recvfrom blocks at one socket and does not see the others.
		row $sides udp,mcast,tcp pp -F$iomux $([[ $iomux != r ]] || echo --nonblocked)
	done
done
# Never sleep, sleep at once.
for iomux in s p e; do
	row both udp,tcp pp -F$iomux VMA_SELECT_POLL=-1
	row both udp,mcast,tcp ul -F$iomux VMA_SELECT_POLL=0
done
run_rows
