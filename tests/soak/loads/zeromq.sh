# ZeroMQ: what a client pushes, the server publishes; 32 messages are under way.
sides=(server client both)
python=/usr/bin/python3 # which Debian's packages are for
$python -c 'import zmq' 2> /dev/null || die "no python3-zmq (tools/lib/install.sh soak)"

set_up() {
	serve relay 5555 $python tests/soak/zeromq.py relay $netns_server 5555
}

load() {
	drive ask "$1" $python tests/soak/zeromq.py ask $netns_server 5555 "$1"
}
