#!/bin/bash
# Connections that an accepting process sends to serving processes: with python's multiprocessing,
# to workers that it forked and to workers that it executed.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs python3

visit() {
	local way ways=(pickled_executed pickled_forked handle_executed handle_forked twice)

	serve passing 7004 python3 tests/programs/passing.py $netns_server 7000 || return
	for way in ${!ways[@]}; do
		check "$what: ${ways[way]} listens" gets_up $served $((7000 + way)) || return
		patience=100 check "$what: ${ways[way]}" \
			use ${ways[way]} python3 tests/programs/passing.py client $netns_server $((7000 + way)) 80
	done
	unseen
}
visits
