# A server and clients of it on one host, for local_test.sh and local_udp_test.sh, which set $port and
# define ends ARGUMENT...: the command of either.

# starts LIB [ADDRESS]: a server on another port.
starts() {
	port=$((port + 1))
	netns_spawn $netns_tmp/server.$port s "$1" $(ends serve $port "${@:2}") || die "no server: $(< $netns_tmp/server.$port)"
	server=$spawned
}

# says LIB ARGUMENT...: what the client prints.
says() {
	vma_env=(VMA_TRACELEVEL=debug VMA_LOG_FILE=$netns_tmp/log)
	rm -f $netns_tmp/log
	netns_run s "$1" $(ends "$2" $port "${@:3}") > $netns_tmp/said
	vma_env=()
}
said() {
	[[ $(< $netns_tmp/said) == "$1" ]] || { echo "     it says: $(< $netns_tmp/said)"; return 1; }
}
stops() {
	netns_run s "" $(ends stop $port) > /dev/null
	await 30 is_gone $server || kill -KILL $server
}
is_local() { grep -q 'closed (accelerated, local)' $netns_tmp/log; }
is_kernel() { ! grep -q 'accelerated, local' $netns_tmp/log; }

# rests LIB: do the server and a client rest while both wait for the other?
rests() {
	local rc

	vma_env=(VMA_TRACELEVEL=debug VMA_LOG_FILE=$netns_tmp/log)
	rm -f $netns_tmp/log
	netns_spawn $netns_tmp/said s "$1" $(ends idle $port) || die "no client: $(< $netns_tmp/said)"
	vma_env=()
	netns_rests $server $spawned
	rc=$?
	kill $spawned
	wait $spawned
	return $rc
}
