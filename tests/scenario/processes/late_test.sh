#!/bin/bash
# A forked child, or a program, that calls nothing for two seconds still has its connection then, whatever
# its parent has done meanwhile.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	asks                      accepts, forks, answers late
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

program=$(find_program tests/scenario/processes/late_answer) || exit 1
late=tests/scenario/processes/late.py
port=7000

# answers HOW LIB-OF-SERVER LIB-OF-CLIENT
answers() {
	port=$((port + 1))
	netns_spawn $netns_tmp/serve.$port s "$2" python3 $late serve $port "$1" "$program" || return 1
	netns_run c "$3" python3 $late ask $netns_server $port > $netns_tmp/ask
	kill -KILL $spawned
	wait $spawned
	grep -qx answer $netns_tmp/ask && return
	cat $netns_tmp/ask $netns_tmp/serve.$port
	return 1
} 2> /dev/null

netns_pair ""
for how in exits closes stays leaves; do
	check "the parent $how" answers $how "$lib" ""
	check "... the client has the library, too" answers $how "$lib" "$lib"
done
verdict
