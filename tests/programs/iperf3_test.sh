#!/bin/bash
# iperf3: one stream, several, the reverse direction, and datagrams.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs iperf3
stray=2000 # of more than 300,000: with -R it ends while the peer sends

visit() {
	local how n=0

	serve iperf3 5201 iperf3 -s --forceflush -B $netns_server || return
	for how in "-n 100M" "-n 100M -P 4" "-n 100M -R" "-n 100M --bidir" "-n 5M -l 100" "-n 50M -Z" "-n 50M -R -Z" \
		"-n 2M -u -b 20M -l 1400" "-n 2M -u -b 20M -l 1400 -R -P 2"; do
		awaits iperf3 $((++n))
		# shellcheck disable=SC2086 # options
		check "$what: iperf3 $how" use client iperf3 -c $netns_server $how &&
			check "$what: ... is done" says client '^iperf Done' &&
			check "$what: ... and arrived" says client ' [1-9][0-9.]* [KMG]Bytes .*receiver'
	done
	unseen
}
visits
