#!/usr/bin/env python3
"""Sockets of AF_INET6 for ip6_test.sh.

	use6.py serve			echoes on port 7000
	use6.py tcp | udp ADDRESS	an echo from there; the datagram socket is bound to [::]:6000
	use6.py tcp_bound ADDRESS	an echo of fd00:9::2, from this address
	use6.py listen ADDRESS		listens there
"""
import select
import sys
from socket import *

PORT = 7000


def new(kind):
    s = socket(AF_INET6, kind)
    s.settimeout(50)
    s.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    return s


def serve():
    udp, listener = new(SOCK_DGRAM), new(SOCK_STREAM)
    udp.bind(("::", PORT))
    listener.bind(("::", PORT))
    listener.listen()
    print("ready", flush=True)
    while True:
        for s in select.select([udp, listener], [], [])[0]:
            if s is udp:
                data, peer = s.recvfrom(100)
                s.sendto(data, peer)
            else:
                conn = s.accept()[0]
                conn.send(conn.recv(100))
                conn.close()


def tcp(to, here=None):
    s = new(SOCK_STREAM)
    if here:
        s.bind((here, 0))
    s.connect((to, PORT))
    s.send(b"text")
    assert s.recv(100) == b"text"


def udp(to):
    s = new(SOCK_DGRAM)
    s.bind(("::", 6000))
    s.sendto(b"text", (to, PORT))
    assert s.recvfrom(100)[0] == b"text"


step, *address = sys.argv[1:]
if step == "serve":
    serve()
elif step == "listen":
    s = new(SOCK_STREAM)
    s.bind((address[0], 6001))
    s.listen()
elif step == "tcp_bound":
    tcp("fd00:9::2", address[0])
else:
    globals()[step](*address)
print(step, "fine", flush=True)
