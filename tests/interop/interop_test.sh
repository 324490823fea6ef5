#!/bin/bash
# The library and the kernel over a link that loses, delays, reorders, duplicates, corrupts and
# throttles: every byte arrives, in both directions and roles.
#
#	c  v0 10.9.0.1 --- w0  wire  w1 --- v0 10.9.0.2  s
#
# long: whole transfers of 64 MB over all of the losses and delays; a REGEX may follow.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
[[ ${1:-} == long ]] && NETNS_LIMIT=14000 ROW_LIMIT=7000
. tests/interop/interop.sh

if [[ $chosen == long ]]; then
	chosen=${2:-.}
	for loss in 0 0.1 1 5 10; do
		for delay in 0.5 10 50; do
			for sides in server client; do
				row $sides up 64000000 1 loss=$loss delay=$delay
				row $sides down 64000000 1 loss=$loss delay=$delay
			done
		done
	done
	run_rows
	exit
fi

for sides in server client both; do
	for direction in up down; do
		# Round trips of 1, 20 and 100 ms. Each transfer is some times what is on its way at once.
		row $sides $direction 16000000 1 delay=0.5
		row $sides $direction 8000000 1 delay=10
		row $sides $direction 4000000 1 delay=50
		row $sides $direction 8000000 1 loss=0.1 delay=0.5
		row $sides $direction 4000000 1 loss=1 delay=0.5
		row $sides $direction 2000000 1 loss=1 delay=10
		row $sides $direction 2000000 1 loss=5 delay=0.5
		row $sides $direction 500000 1 loss=5 delay=10
		row $sides $direction 300000 1 loss=10 delay=0.5
		row $sides $direction 2000000 1 loss=2 burst=3 delay=0.5
	done
	row $sides both 4000000 4 reorder=5 delay=1
	row $sides both 4000000 4 reorder=20 gap=0.2 dup=5
	row $sides both 2000000 4 corrupt=2 delay=0.5
	row $sides both 2000000 2 rate=20 queue=20 delay=2
	row $sides both 1000000 2 0:loss=10 delay=0.5
	row $sides both 1000000 4 loss=2 dup=2 corrupt=1 reorder=5 jitter=3 delay=1
	row $sides both 10000 1000 delay=0.5
	row $sides both 10000 200 loss=1 delay=0.5
	# SYN cookies: 64 handshakes at the same time, room for seventeen.
	row $sides both 10000 200 BACKLOG=16 delay=5
	row $sides both 10000 200 BACKLOG=16 loss=1 delay=5
done
run_rows
