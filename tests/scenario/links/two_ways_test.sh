#!/bin/bash
# A socket is bound to the address of one interface, and its peer is reached by another one: answers
# arrive by the first interface.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	   w0 10.9.2.1 ---------- w0 10.9.2.2
#	binds 10.9.2.1            is asked at 10.9.0.2
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
netns_pair ""
ip link add w0 netns c type veth peer name w0 netns s || die "no veth"
netns_up c w0 10.9.2.1
netns_up s w0 10.9.2.2
await 30 netns_is_up c w0 && await 30 netns_is_up s w0 || die "the link stays down"
for ns in c s; do
	in_ns $ns sh -c 'for i in all default v0 w0; do echo 0 > /proc/sys/net/ipv4/conf/$i/rp_filter; done'
done
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"
cat > $netns_tmp/ask.py << 'END_OF_PYTHON'
import socket, sys

protocol, local, *peer = sys.argv[1:]
peer = (peer[0], int(peer[1]))
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM)
s.settimeout(50)
s.bind((local, 0))
try:
    if protocol == "tcp":
        s.connect(peer)
        print("connected from", s.getsockname()[0])
        s.send(b"question")
        print("answered", s.recv(100) == b"question")
    else:
        s.sendto(b"question", peer)
        answer, who = s.recvfrom(100)
        print("answered", answer == b"question", "by", who[0])
except OSError as e:
    print(type(e).__name__)
END_OF_PYTHON

# asks PROTOCOL ADDRESS PORT: prints the same with and without the library.
asks() {
	netns_run c "" /usr/bin/python3 $netns_tmp/ask.py "$1" "$2" $netns_server "$3" > $netns_tmp/kernel
	netns_run c "$lib" /usr/bin/python3 $netns_tmp/ask.py "$1" "$2" $netns_server "$3" > $netns_tmp/ours
	cat $netns_tmp/kernel
	diff $netns_tmp/kernel $netns_tmp/ours
}

for protocol in tcp udp; do
	check "$protocol, from the other interface's address" asks $protocol 10.9.2.1 7000
	check "... it is answered" grep -q 'answered True' $netns_tmp/ours
	check "$protocol, from the address of the interface" asks $protocol $netns_client 7000
	check "... it is answered" grep -q 'answered True' $netns_tmp/ours
done
check "tcp, and no server" asks tcp 10.9.2.1 7999
verdict
