# ZeroMQ: the server publishes what a client pushes; 32 messages are in transit.
sides=(server client both)
python=/usr/bin/python3 # the one that Debian's packages are for
$python -c 'import zmq' 2> /dev/null || die "no python3-zmq (tools/lib/install.sh soak)"

set_up() {
	serve relay 5555 $python tests/soak/zeromq.py relay $netns_server 5555
}

load() {
	drive ask "$1" $python tests/soak/zeromq.py ask $netns_server 5555 "$1"
}
