#!/bin/bash
# The kernel needs long to close what a killed process had. Meanwhile no process reads the frames of
# its sockets: from the moment of death, the kernel answers.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	connects                  the server that is killed; another process has its descriptors
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
netns_pair ""

answer() {
	netns_run c "" python3 tests/scenario/processes/killed.py connect $netns_server 7000
}

is() {
	[[ $1 == "$2" ]] && return
	echo "     $1, not $2"
	return 1
}

netns_spawn $netns_tmp/serve s "$lib" "$probe" serve tcp:7000:recv || die "no server: $(cat $netns_tmp/serve)"
victim=$spawned
netns_spawn $netns_tmp/hold s "" python3 tests/scenario/processes/killed.py hold $victim ||
	die "nothing to hold: $(cat $netns_tmp/hold)"
check "it lives, and answers" is "$(answer)" connected
netns_kill $victim
[[ -z $lib ]] || check "its program is on the interface" netns_has_xdp s v0
check "it is dead, and the kernel refuses" is "$(answer)" refused
verdict
