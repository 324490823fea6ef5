# dnsmasq, and datagrams, each from its own socket.
sides=(server client both)
needs dnsmasq python3

set_up() {
	dns_serve
}

load() {
	drive ask "$1" python3 tests/soak/ask.py dns $netns_server 53 "$1"
}
