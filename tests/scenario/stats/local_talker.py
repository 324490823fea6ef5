# SPDX-License-Identifier: BSD-2-Clause
"""Traffic of known counts on one host.

    local_talker.py serve PORT	echoes datagrams, and one connection after another
    local_talker.py FIFO PORT	obeys lines in FIFO:
      udp N		N datagrams of 50 bytes there and back
      udp6 N		the same by ::1
      tcp N		N times 1000 bytes there and back
      bulk N		N bytes there and back at once
      connect		a connection with one echo of 10 bytes, closed by this side
"""
import select, sys, threading
from socket import *

PORT = int(sys.argv[2])


def serve():
    udp, udp6, tcp = socket(AF_INET, SOCK_DGRAM), socket(AF_INET6, SOCK_DGRAM), socket()
    udp.bind(("127.0.0.1", PORT))
    udp6.bind(("::1", PORT))
    tcp.bind(("127.0.0.1", PORT))
    tcp.listen(10)
    print("ready", flush=True)
    conns = []
    while True:
        for s in select.select([udp, udp6, tcp, *conns], [], [])[0]:
            if s is tcp:
                conns.append(s.accept()[0])
            elif s in conns:
                data = s.recv(65536)
                s.sendall(data)
                if not data:
                    conns.remove(s)
                    s.close()
            else:
                s.sendto(*s.recvfrom(2048))


def echo(s, data):
    sender = threading.Thread(target=s.sendall, args=(data,))
    sender.start()
    got = b""
    while len(got) < len(data):
        got += s.recv(65536)
    sender.join()
    assert got == data


def udp_rounds(s, n):
    for i in range(n):
        s.send(b"u" * 50)
        assert s.recv(2048) == b"u" * 50


def talk(fifo):
    udp, udp6 = socket(AF_INET, SOCK_DGRAM), socket(AF_INET6, SOCK_DGRAM)
    udp.connect(("127.0.0.1", PORT))
    udp6.connect(("::1", PORT))
    tcp = create_connection(("127.0.0.1", PORT))
    for s in (udp, udp6):
        udp_rounds(s, 10)
    print("ready", flush=True)
    for line in open(fifo):
        what, *n = line.split()
        if what == "udp":
            udp_rounds(udp, int(n[0]))
        elif what == "udp6":
            udp_rounds(udp6, int(n[0]))
        elif what == "tcp":
            for i in range(int(n[0])):
                echo(tcp, b"t" * 1000)
        elif what == "bulk":
            echo(tcp, b"0123456789" * (int(n[0]) // 10))
        elif what == "connect":
            with create_connection(("127.0.0.1", PORT)) as s:
                echo(s, b"0123456789")
                s.shutdown(SHUT_WR)
                assert s.recv(1) == b""
        print("done", line.strip(), flush=True)


serve() if sys.argv[1] == "serve" else talk(sys.argv[1])
