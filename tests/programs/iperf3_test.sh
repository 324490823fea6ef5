#!/bin/bash
# iperf3: one stream, several, the reverse direction, and datagrams.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs iperf3

visit() {
	local how n=0

	serve iperf3 5201 iperf3 -s --forceflush -B $netns_server || return
	for how in "-t 1" "-t 1 -P 4" "-t 1 -R" "-t 1 --bidir" "-n 5M -l 100" "-n 50M -Z" "-n 50M -R -Z" \
		"-t 1 -u -b 20M -l 1400" "-t 1 -u -b 20M -l 1400 -R -P 2"; do
		awaits iperf3 $((++n))
		# shellcheck disable=SC2086 # options
		check "$what: iperf3 $how" use client iperf3 -c $netns_server $how &&
			check "$what: ... is done" says client '^iperf Done' &&
			check "$what: ... and arrived" says client ' [1-9][0-9.]* [KMG]Bytes .*receiver'
	done
	unseen
}
visits
