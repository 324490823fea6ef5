# redis, killed and started again every 5 s (every second in a short run); a Python client opens a
# connection for each request.
sides=(server both)
churns=1
((slice < 10000)) || every=5
needs redis-server python3

set_up() {
	redis_serve
}

load() {
	drive ask "$1" python3 tests/soak/ask.py redis $netns_server 6379 "$1"
}

disturb() {
	stop redis KILL
	redis_serve
}
