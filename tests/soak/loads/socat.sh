# socat, which forks a process and executes a program for each connection.
sides=(server both)
churns=1
needs socat python3

set_up() {
	echo_serve
}

load() {
	drive ask "$1" python3 tests/soak/ask.py echo $netns_server 7006 "$1"
}
