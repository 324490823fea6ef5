"""What connections and datagrams make of the host's settings and of the route; see host_test.sh.

host.py serve PORT		the peer, which sees each packet
host.py ask ADDRESS PORT [acks]	prints what can be seen on this side, and what the peer saw; acks:
				also whether each answer of the peer was acknowledged alone
"""

import errno
import fcntl
import select
import struct
import sys
import time
from socket import *
from termios import TIOCOUTQ

NOBODY = "10.9.0.9"  # sends no answer
QUESTIONS = 20
ETH_P_IP = 0x0800
IP_RECVTTL = 12


class Peer:
    """Answers questions by UDP, echoes by TCP, and notes the IPv4 packets that arrive."""

    def __init__(self, port):
        self.port = port
        self.packets = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP))
        self.packets.bind(("v0", ETH_P_IP))
        self.udp = socket(AF_INET, SOCK_DGRAM)
        self.udp.setsockopt(IPPROTO_IP, IP_RECVTTL, 1)
        self.udp.bind(("0.0.0.0", port))
        self.listener = create_server(("0.0.0.0", port), backlog=10)
        self.talks = []
        self.syns, self.acks, self.ttls = 0, 0, set()

    def note(self):
        packet, where = self.packets.recvfrom(65536)
        if where[2] == PACKET_OUTGOING or packet[9] != IPPROTO_TCP:
            return
        head = (packet[0] & 15) * 4
        size = struct.unpack("!H", packet[2:4])[0]
        flags, data = packet[head + 13], size - head - (packet[head + 12] >> 4) * 4
        if inet_ntoa(packet[16:20]) == NOBODY:
            self.syns += 1
            return
        self.ttls.add(packet[8])
        if flags == 16 and not data:
            self.acks += 1

    def note_all(self):
        while select.select([self.packets], [], [], 0)[0]:
            self.note()

    def answer(self):
        text, cmsgs, _, asker = self.udp.recvmsg(100, 100)
        words = text.decode().split()
        self.note_all()
        if words[0] == "hops":
            reply = [struct.unpack("i", data)[0] for _, kind, data in cmsgs if kind == IP_TTL][0]
        elif words[0] == "connect":
            self.talks.append(create_connection((asker[0], int(words[1]))))
            reply = "connected"
        else:
            reply = {"syns": self.syns, "acks": self.acks, "ttls": sorted(self.ttls)}[words[0]]
        self.udp.sendto(str(reply).encode(), asker)

    def echo(self, talk):
        data = talk.recv(65536)
        if not data:
            self.talks.remove(talk)
            talk.close()
        elif data.startswith(b"?"):
            talk.send(b"!")

    def serve(self):
        print("ready", flush=True)
        while True:
            ready = select.select([self.packets, self.udp, self.listener] + self.talks, [], [])[0]
            for s in ready:
                if s is self.packets:
                    self.note()
                elif s is self.udp:
                    self.answer()
                elif s is self.listener:
                    self.talks.append(s.accept()[0])
                else:
                    self.echo(s)


def ask(address, text, s=None):
    s = s or socket(AF_INET, SOCK_DGRAM)
    s.sendto(text.encode(), address)
    return s.recv(1000).decode()


def info(s):
    """The options, the timeout in microseconds, the window in segments."""
    raw = s.getsockopt(IPPROTO_TCP, TCP_INFO, 200)
    return raw[5], struct.unpack_from("I", raw, 8)[0], struct.unpack_from("I", raw, 80)[0]


def unacknowledged(s):
    return struct.unpack("i", fcntl.ioctl(s, TIOCOUTQ, bytes(4)))[0]


def keepalive():
    s = socket()
    s.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
    return [s.getsockopt(IPPROTO_TCP, n) for n in (TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT)]


def show(what, *values):
    print(what, *values, flush=True)


def has_short_timeout(address):
    """One below 150 ms: without a route that says so, it is 200 ms at least, and when the machine is
    busy, a first round trip may take long."""
    for _ in range(100):
        s = create_connection(address)
        rto = info(s)[1]
        s.close()
        if rto < 150000:
            return True
    return False


def connection(address):
    s = socket()
    s.setsockopt(IPPROTO_TCP, TCP_CONGESTION, b"reno")  # others may have no pause
    s.connect(address)
    options, _, window = info(s)
    show("options", options & 15, "first window", window)
    show("short timeout", has_short_timeout(address))
    if "acks" in sys.argv:
        before = int(ask(address, "acks"))
        for _ in range(QUESTIONS):
            s.send(b"?")
            assert s.recv(1) == b"!"
        show("all acknowledged alone", int(ask(address, "acks")) - before >= QUESTIONS)
    for _ in range(100):
        s.send(bytes(10000))
    while info(s)[2] <= window:
        s.send(bytes(10000))
    while unacknowledged(s):
        time.sleep(0.01)
    largest = info(s)[2]
    time.sleep(4 * info(s)[1] / 1e6)  # the pause
    s.send(b"x")
    show("a pause shrinks the window", info(s)[2] < largest)


def accepted(address):
    listener = create_server(("0.0.0.0", 0))
    show(ask(address, f"connect {listener.getsockname()[1]}"))
    s = listener.accept()[0]
    show("accepted: first window", info(s)[2])
    s.send(b"x")


def hops(address):
    s = socket(AF_INET, SOCK_DGRAM)
    seen = [ask(address, "hops", s)]
    for ttl in (10, -1):
        s.setsockopt(IPPROTO_IP, IP_TTL, ttl)
        seen.append(ask(address, "hops", s))
    show("hops of datagrams", *seen)
    show("hops of segments", ask(address, "ttls"))
    s = socket()
    s.setsockopt(IPPROTO_IP, IP_TTL, 77)
    s.connect(address)
    show("... and of a connection's own", ask(address, "ttls"))


def nobody(address):
    s = socket()
    try:
        s.connect((NOBODY, 7000))
    except OSError as e:
        show("nobody answers", errno.errorcode[e.errno], "SYNs", ask(address, "syns"))


if sys.argv[1] == "serve":
    Peer(int(sys.argv[2])).serve()
else:
    peer = sys.argv[2], int(sys.argv[3])
    show("keepalive", *keepalive())
    connection(peer)
    accepted(peer)
    hops(peer)
    nobody(peer)
