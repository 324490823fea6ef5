# Sourced by benches of programs, after tools/lib/netns.sh, with $log: a server and its client.

# ask NAMESPACE LIB PORT CLIENT... -- SERVER...: the output of the client, which is in the namespace, is in
# $log.client; the word SERVER in it becomes the process of the server, which is in s.
ask() {
	local ns=$1 preload=$2 port=$3 client=() server

	shift 3
	while [[ $1 != -- ]]; do
		client+=("$1")
		shift
	done
	netns_exec s "$preload" $cpu_server "${@:2}" > $log.server 2>&1 < /dev/null &
	server=$!
	await 10 listens s "$port" &&
		(netns_exec $ns "$preload" $cpu_client timeout -s KILL 60 "${client[@]//SERVER/$server}" 2>&1 < /dev/null) > $log.client
	kill -TERM $server 2> /dev/null
	await 5 is_gone $server || kill -KILL $server
	wait $server
} 2> /dev/null

# redis NAMESPACE LIB HOST CONNECTIONS REQUESTS [PORT]: GETs per second.
redis() {
	local port=${6:-6379}

	ask "$1" "$2" "$port" redis-benchmark -h "$3" -p "$port" -t get -c "$4" -n "$5" --csv -- \
		redis-server --bind "$3" --port "$port" --protected-mode no --save "" --dir $netns_tmp
	sed -nE 's/^"GET","([0-9.]+)".*/\1/p' $log.client
}
