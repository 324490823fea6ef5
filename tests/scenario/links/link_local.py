#!/usr/bin/env python3
"""For link_local_test.sh: sockets with link-local addresses.

	link_local.py serve			echoes on port 7000 of all addresses
	link_local.py ask udp | tcp LINK	an echo of fe80::2 by this link, within a second
	link_local.py hold LINK DIRECTORY	a connection that stays: an echo whenever the file
						DIRECTORY/go is there, which it then removes
"""
import os
import select
import sys
import time
from socket import *

PORT = 7000
THERE = "fe80::2"


def new(kind):
    s = socket(AF_INET6, kind)
    s.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    return s


def serve():
    udp, listener = new(SOCK_DGRAM), new(SOCK_STREAM)
    udp.bind(("::", PORT))
    listener.bind(("::", PORT))
    listener.listen()
    conns = []
    print("ready", flush=True)
    while True:
        for s in select.select([udp, listener] + conns, [], [])[0]:
            if s is udp:
                data, peer = s.recvfrom(100)
                s.sendto(data, peer)
            elif s is listener:
                conns.append(s.accept()[0])
            else:
                data = s.recv(100)
                if data:
                    s.send(data)
                else:
                    conns.remove(s)
                    s.close()


def connected(link, limit):
    s = new(SOCK_STREAM)
    s.settimeout(limit)
    s.connect((THERE, PORT, 0, if_nametoindex(link)))
    return s


def ask(protocol, link):
    if protocol == "tcp":
        s = connected(link, 1)
        s.send(b"text")
        assert s.recv(100) == b"text"
        return
    s = new(SOCK_DGRAM)
    s.settimeout(1)
    s.sendto(b"text", (THERE, PORT, 0, if_nametoindex(link)))
    data, peer = s.recvfrom(100)
    assert data == b"text" and peer[3] == if_nametoindex(link), peer


def hold(link, directory):
    s = connected(link, 50)
    print("ready", flush=True)
    while True:
        while not os.path.exists(directory + "/go"):
            time.sleep(0.01)
        os.unlink(directory + "/go")
        s.send(b"text")
        print("sent", flush=True)
        assert s.recv(100) == b"text"
        print("answered", flush=True)


globals()[sys.argv[1]](*sys.argv[2:])
print("answers")
