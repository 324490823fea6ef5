# redis with 10,000 idle connections, and a busy one. At the end each of the 10,000 sends a request.
sides=(server client both)
needs redis-server redis-benchmark python3

set_up() {
	redis_serve && hold crowd python3 tests/soak/idle.py $netns_server 6379 10000
}

load() {
	redis_ask bench "$1" 1
}

finish() {
	stop crowd
	sed -n 's/^result //p' "$work/crowd.log" >> "$work/results"
	grep -q '^result' "$work/crowd.log" || result errors_crowd=1
}
