"""What connections make of the metrics of their route, in both directions; see route_test.sh.

route.py serve PORT		the peer, which sees each packet
route.py ask ADDRESS... PORT	prints for each address what the peer saw, and what the sockets say
"""

import errno
import select
import struct
import sys
from socket import *

ETH_P_ALL = 3
SYN, ACK, ECE = 2, 16, 64
TIMESTAMPS = 12
SEGMENTS, BYTES = 40, 50000  # without a limit the windows differ, and are larger


class Seen:
    """What one side of a connection said first."""

    def __init__(self, window, flags, options):
        self.syn_window = window
        self.ecn = bool(flags & ECE)
        self.mss, self.wscale, self.window = 0, None, None
        while options and options[0]:
            size = 1 if options[0] == 1 else options[1]
            if options[0] == 2:
                self.mss = struct.unpack_from("!H", options, 2)[0]
            elif options[0] == 3:
                self.wscale = options[2]
            options = options[size:]

    def __str__(self):
        unit = self.mss - TIMESTAMPS
        window = self.window + (1 << self.wscale) - 1  # one side rounds down, the other up
        first, then = (min(w // unit, SEGMENTS) for w in (self.syn_window, window))
        return f"mss {self.mss} wscale {self.wscale} ecn {self.ecn} segments {first} {then}"


class Peer:
    """Answers by UDP what it saw of the connection from a port."""

    def __init__(self, port):
        self.packets = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL))
        self.packets.bind(("v0", ETH_P_ALL))
        self.packets.settimeout(20)
        self.udp = socket(AF_INET6, SOCK_DGRAM)
        self.udp.bind(("::", port))
        self.listener = create_server(("::", port), family=AF_INET6, dualstack_ipv6=True)
        self.talks = []
        self.seen = {}

    def note(self):
        packet, where = self.packets.recvfrom(65536)
        if where[2] == PACKET_OUTGOING or packet[0] >> 4 not in (4, 6):
            return
        v4 = packet[0] >> 4 == 4
        if packet[9 if v4 else 6] != IPPROTO_TCP:
            return
        tcp = packet[(packet[0] & 15) * 4 if v4 else 40 :]
        port, flags, window = struct.unpack("!H11xBH", tcp[:16])
        if flags & SYN:
            self.seen[port] = Seen(window, flags, tcp[20 : (tcp[12] >> 4) * 4])
        elif port in self.seen and self.seen[port].window is None:
            self.seen[port].window = window << (self.seen[port].wscale or 0)

    def answer(self):
        text, asker = self.udp.recvfrom(100)
        what, port = text.decode().split()
        port = int(port)
        if what == "connect":
            self.seen.pop(port, None)
            self.talks.append(create_connection((asker[0], port)))
            reply = "connected"
        else:
            while port not in self.seen or self.seen[port].window is None:
                self.note()
            reply = str(self.seen.pop(port))
        self.udp.sendto(reply.encode(), asker)

    def serve(self):
        print("ready", flush=True)
        while True:
            for s in select.select([self.packets, self.udp, self.listener], [], [])[0]:
                if s is self.packets:
                    self.note()
                elif s is self.udp:
                    self.answer()
                else:
                    self.talks.append(s.accept()[0])


def ask(address, text):
    with socket(AF_INET6 if ":" in address[0] else AF_INET, SOCK_DGRAM) as s:
        s.sendto(text.encode(), address)
        return s.recv(1000).decode()


def congestion(s):
    return s.getsockopt(IPPROTO_TCP, TCP_CONGESTION, 16).rstrip(b"\0").decode()


def set_congestion(s, name):
    try:
        s.setsockopt(IPPROTO_TCP, TCP_CONGESTION, name)
        return congestion(s)
    except OSError as e:
        return errno.errorcode[e.errno]


def show(what, s, seen):
    print(what, seen)
    # This must not bring back what the socket had before.
    s.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
    names = [congestion(s)] + [set_congestion(s, name) for name in (b"cubic", b"nonsense", b"reno")]
    clamp = min(s.getsockopt(IPPROTO_TCP, TCP_WINDOW_CLAMP), BYTES)
    print(what, *names, "sends", s.getsockopt(IPPROTO_TCP, TCP_MAXSEG), "clamp", clamp, flush=True)


def connection(address, family, chosen):
    s = socket(family, SOCK_STREAM)
    if chosen:
        set_congestion(s, chosen)
    s.connect(address)
    show(f"{family.name} connect {chosen}", s, ask(address, f"seen {s.getsockname()[1]}"))


def accepted(address, family, chosen):
    listener = create_server(("", 0), family=family)
    if chosen:
        set_congestion(listener, chosen)
    port = listener.getsockname()[1]
    ask(address, f"connect {port}")
    s = listener.accept()[0]
    s.send(b"x")
    show(f"{family.name} accept {chosen}", s, ask(address, f"seen {port}"))


if sys.argv[1] == "serve":
    Peer(int(sys.argv[2])).serve()
else:
    for host in sys.argv[2:-1]:
        for chosen in (None, b"cubic"):
            for kind in (connection, accepted):
                kind((host, int(sys.argv[-1])), AF_INET6 if ":" in host else AF_INET, chosen)
