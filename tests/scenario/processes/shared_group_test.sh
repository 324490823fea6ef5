#!/bin/bash
# Several receivers of one feed on one host: an accelerated one is alone at first, then others join,
# accelerated or not. From then on each receives everything.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	sends to 224.9.9.9        readers
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

relay=$(find_program "${RELAY:-tests/scenario/relay}") || exit 1
netns_pair ""

shout() {
	netns_run c "" "$relay" shout $netns_client $netns_group "$1" "$2" "$3"
}

told() {
	grep -q "another socket shares its port" "$1"
}

got() {
	await 30 grep -q '^received' "$1" && grep -qx "received $2" "$1" || { cat "$1"; return 1; }
}

# readers PORT LIBRARY-OF-THE-SECOND
readers() {
	local first=$netns_tmp/first.$1 second=$netns_tmp/second.$1 log=$netns_tmp/log.$1

	vma_env=(VMA_TRACELEVEL=debug VMA_LOG_FILE=$log)
	netns_spawn $first s "$lib" "$relay" join $netns_server $netns_group "$1" || return 1
	shout "$1" 0 50
	vma_env=(VMA_TRACELEVEL=warn)
	netns_spawn $second s "$2" "$relay" join $netns_server $netns_group "$1" || return 1
	[[ -z $lib ]] || await 30 told "$log" || { echo "the first did not notice"; return 1; }
	shout "$1" 100 50
	shout "$1" 0 0
	got "$first" 100 && got "$second" 50
}

check "a reader that is not accelerated joins" readers 7000 ""
check "an accelerated reader joins" readers 7001 "$lib"
verdict
