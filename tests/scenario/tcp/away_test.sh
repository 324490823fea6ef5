#!/bin/bash
# A connection stays alive while its program sleeps or computes: data is acknowledged, keep-alives
# are answered, lost segments are retransmitted. In mode 0, where the internal thread uses
# membarrier(2), and where that is missing.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	connects, and computes    the kernel; gives up a silent peer
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

away=$(find_program tests/scenario/tcp/away) || exit 1
netns_pair ""
server_log=$netns_tmp/serve
client_log=$netns_tmp/spin

says() {
	grep -q "$2" "$1"
}

acknowledged_twice() {
	[[ $(grep -c ^acknowledged $server_log) == 2 ]]
}

# A row of the table: WHAT PORT ENVIRONMENT COMMAND...
row() {
	local what=$1 port=$2 server client

	vma_env=(VMA_TRACELEVEL=warn "$3")
	check "$what: a server" netns_spawn $server_log s "" "$away" serve "$port"
	server=$spawned
	check "$what: a client" netns_spawn $client_log c "$lib" "${@:4}" "$away" spin $netns_server "$port"
	client=$spawned
	check "$what: all is acknowledged while it sleeps" await 30 says $server_log deaf
	kill -USR1 "$client"
	check "$what: what was lost is retransmitted" await 30 says $server_log 'got M'
	check "$what: all is acknowledged while it computes" await 30 acknowledged_twice
	check "$what: keep-alives are answered while it computes" await 60 says $server_log answered
	check "$what: meanwhile it computes" eval "! says $client_log computed"
	kill -USR2 "$client"
	check "$what: the program has restarted" await 30 says $client_log 'got everything'
	check "$what: the connection ends correctly" await 30 says $server_log 'peer left'
	wait "$server" "$client"
	grep -H . $server_log $client_log | sed "s|^$netns_tmp/|     |"
}

before=$(netns_counters c TcpInSegs)
row "mode 0" 7000 VMA_THREAD_MODE=0
check "no warning" eval "! says $client_log WARNING"
row "mode 1" 7001 VMA_THREAD_MODE=1
row "mode 0 without membarrier" 7002 VMA_THREAD_MODE=0 "$away" bare
[[ -z $lib ]] || check "and a warning" says $client_log 'VMA_THREAD_MODE=0 needs membarrier'
[[ -z $lib ]] || check "bypasses the kernel" test "$before" = "$(netns_counters c TcpInSegs)"
verdict
