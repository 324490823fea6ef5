# SPDX-License-Identifier: BSD-2-Clause
"""Traffic of known counts, with an echo server at 10.9.0.2:7000.

    talker.py FIFO PORT	binds PORT, PORT + 1 and so on; obeys lines in FIFO:
      udp N		N datagrams of 50 bytes there and back
      tcp N		N times 1000 bytes there and back
      read		a datagram that was sent to PORT + 1
      fork		a child sends 7 datagrams on a socket of its own
      quit
"""
import os, select, signal, sys
from socket import *

SERVER = ("10.9.0.2", 7000)
PORT = int(sys.argv[2])


def udp_rounds(s, n):
    for i in range(n):
        s.send(b"u" * 50)
        assert len(s.recv(2048)) == 50


def tcp_rounds(s, n):
    for i in range(n):
        s.sendall(b"t" * 1000)
        got = 0
        while got < 1000:
            got += len(s.recv(2048))


udp = socket(AF_INET, SOCK_DGRAM)
udp.connect(SERVER)
udp_rounds(udp, 100)

tcp = create_connection(SERVER)
tcp.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
tcp_rounds(tcp, 10)

member = socket(AF_INET, SOCK_DGRAM)
member.bind(("", PORT))
for group in ("224.9.9.9", "224.9.9.10"):
    member.setsockopt(IPPROTO_IP, IP_ADD_MEMBERSHIP, inet_aton(group) + inet_aton("10.9.0.1"))
member.setblocking(False)
for i in range(3):
    try:
        member.recv(100)
    except BlockingIOError:
        pass

other = socket(AF_INET, SOCK_DGRAM)
other.bind(("10.9.0.1", PORT + 1))
other.setsockopt(IPPROTO_IP, IP_ADD_MEMBERSHIP, inet_aton("224.9.9.9") + inet_aton("10.9.0.1"))

listener = socket(AF_INET6)
listener.bind(("::ffff:10.9.0.1", PORT + 2))
listener.listen(5)

# The kernel's: only it can send IP options.
left = socket(AF_INET, SOCK_DGRAM)
left.bind(("10.9.0.1", PORT + 3))
left.setsockopt(IPPROTO_IP, IP_OPTIONS, b"\x01\x01\x01\x00")

ep = select.epoll()
ep.register(udp, select.EPOLLIN)
for i in range(5):
    udp.send(b"e" * 50)
    assert ep.poll(10) == [(udp.fileno(), select.EPOLLIN)]
    udp.recv(2048)
assert ep.poll(0) == []
udp.send(b"s" * 50)
assert select.select([udp], [], [], 10)[0] == [udp]
udp.recv(2048)

names = {"udp": udp, "tcp": tcp, "member": member, "other": other, "listener": listener, "left": left, "epoll": ep}
print(" ".join("%s=%d" % (name, s.fileno()) for name, s in names.items()), flush=True)
print("ready", flush=True)

with open(sys.argv[1]) as commands:
    for line in commands:
        what = line.split()
        if what[0] == "udp":
            udp_rounds(udp, int(what[1]))
        elif what[0] == "tcp":
            tcp_rounds(tcp, int(what[1]))
        elif what[0] == "read":
            other.recv(2048)
        elif what[0] == "fork":
            if os.fork() == 0:
                mine = socket(AF_INET, SOCK_DGRAM)
                mine.connect(SERVER)
                udp_rounds(mine, 7)
                print("child %d %d" % (os.getpid(), mine.fileno()), flush=True)
                signal.pause()
                os._exit(0)
        else:
            break
        print("done", line.strip(), flush=True)
for s in (udp, tcp, member, other, listener, left, ep):
    s.close()
