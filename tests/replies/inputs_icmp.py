# SPDX-License-Identifier: BSD-2-Clause
"""Errors of ICMP and ICMPv6, about what the target has sent and what it has not."""
import frames
from case import IPV6, LATE, PEER, TARGET, Case
from frames import ACK, PSH

# Type, code, and the second four bytes; {} of any family is an MTU.
if IPV6:
    ERRORS = {
        **{f"unreachable, code {code}": (1, code, 0) for code in (0, 1, 2, 3, 4, 5, 6, 7, 200)},
        **{f"too big, {mtu}": (2, 0, mtu) for mtu in (0, 1279, 1280, 1400, 1500, 70000)},
        "time exceeded": (3, 0, 0),
        "time exceeded, code 9": (3, 9, 0),
        "parameter problem, code 0": (4, 0, 0),
        "parameter problem, code 1": (4, 1, 6),
        "parameter problem, code 2": (4, 2, 40),
        "unknown type 99": (99, 0, 0),
    }
    PROTO, NO_PORT, TOO_BIG = 58, (1, 4, 0), (2, 0, 1280)
else:
    ERRORS = {
        **{f"unreachable, code {code}": (3, code, 0) for code in (0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16, 200)},
        **{f"too big, {mtu}": (3, 4, mtu) for mtu in (0, 67, 68, 600, 1400, 1500, 65535)},
        "source quench": (4, 0, 0),
        "redirect to the router": (5, 1, 0x0A090001),
        "time exceeded": (11, 0, 0),
        "time exceeded, code 9": (11, 9, 0),
        "parameter problem, code 0": (12, 0, 0),
        "parameter problem, code 1": (12, 1, 0),
    }
    PROTO, NO_PORT, TOO_BIG = 1, (3, 3, 0), (3, 4, 600)


ROUTER = "fd00:9::1" if IPV6 else "10.9.0.1"
if IPV6:
    SOURCES = ["::", "::1", TARGET, "fe80::66", "ff02::1", "2001:db8::8", "fd00:98::5", "fd00:97::5"]
    DESTINATIONS = ["ff02::1", "fe80::2", "fd00:99::2"]
else:
    SOURCES = ["0.0.0.0", "127.0.0.1", TARGET, "224.0.0.1", "10.9.0.255", "8.8.8.8", "10.98.0.5", "10.97.0.5"]
    DESTINATIONS = ["224.0.0.1", "10.9.0.255", "255.255.255.255", "10.99.0.2"]


def send_error(c, error, quoted, src=ROUTER, dst=TARGET, **odd):
    was, c.mac = c.mac, "router"
    c.ip(PROTO, frames.icmp(*error, quoted, src, dst, **odd), src=src, dst=dst)
    c.mac = was


def datagram(sport, dport, src=TARGET, dst=PEER):
    return frames.ip(17, frames.udp(sport, dport, b"question", src, dst), src, dst)


def settle(c):
    def refuse():
        body = frames.tcp(c.other_port(), c.other_port(), c.other_iss, 0, frames.SYN, b"", b"", TARGET, c.peer)
        send_error(c, NO_PORT, frames.ip(6, body, TARGET, c.peer))

    c.settle_errors(refuse)


def segment(c, seq=0, flags=ACK | PSH, data=b"x" * 10, src=TARGET, dst=None, **kw):
    """Of the target's; seq counts from the end of the SYNs."""
    dst = dst or c.peer
    ports = (kw.get("sport", c.dport), kw.get("dport", c.port))
    body = frames.tcp(*ports, (c.irs or 0) + 1 + seq, c.iss + 1, flags, data, b"", src, dst)
    return frames.ip(6, body, src, dst)


def with_data(name):
    """A connection of which ten bytes are under way."""
    c = Case.from_new_peer(name)
    c.establish()
    c.records_repeats = True
    c.settle("send")
    return c


def goes_on(c):
    settle(c)
    c.tcp(ACK, ack=10)
    c.settle("error")
    c.records_repeats = False
    c.settle("sendmuch")
    c.tcp(ACK, ack=10 + 3000)
    c.tcp(ACK | PSH, ack=10 + 3000, data=b"hello")
    c.settle()


def cases_of_connection():
    for what, error in ERRORS.items():
        c = with_data(f"connected, {what}")
        send_error(c, error, segment(c))
        goes_on(c)
    for what, kw in {
        "about an older segment": {"seq": -100},
        "about a later segment": {"seq": 10},
        "about a segment far ahead": {"seq": 1 << 30},
        "about another port of the peer": {"dport": 9},
        "about another port of the target": {"sport": 9},
        "about another peer": {"dst": LATE},
        "about a segment from another address": {"src": LATE},
        "about a segment of the peer": {"sport": None},
    }.items():
        for kind, error in ("no port", NO_PORT), ("too big", TOO_BIG):
            c = with_data(f"connected, {kind} {what}")
            if "sport" in kw and kw["sport"] is None:
                quoted = segment(c, sport=c.port, dport=c.dport, src=c.peer, dst=TARGET)
            else:
                quoted = segment(c, **kw)
            send_error(c, error, quoted)
            goes_on(c)
    head = 40 if IPV6 else 20
    for what, cut in {
        "cut behind the sequence number": head + 8,
        "cut before the sequence number": head + 4,
        "cut in the header of IP": head - 1,
        "cut to nothing": 0,
    }.items():
        c = with_data(f"connected, too big, {what}")
        send_error(c, TOO_BIG, segment(c)[:cut])
        goes_on(c)
    c = with_data("connected, too big, bad checksum")
    send_error(c, TOO_BIG, segment(c), csum=1)
    goes_on(c)
    for src in SOURCES:
        c = with_data(f"connected, too big, from {src}")
        send_error(c, TOO_BIG, segment(c), src=src)
        goes_on(c)
    for dst in DESTINATIONS:
        c = with_data(f"connected, too big, to {dst}")
        send_error(c, TOO_BIG, segment(c), dst=dst)
        goes_on(c)
    c = with_data("connected, too big, to a group's link address")
    c.dst_mac = "group6"
    send_error(c, TOO_BIG, segment(c))
    c.dst_mac = "target"
    goes_on(c)


def cases_of_handshake():
    for kind, error in ("no port", NO_PORT), ("too big", TOO_BIG), ("no route", (ERRORS["unreachable, code 0"])):
        for what, seq in ("", -1), (", of another number", 100), (", of a number before", -100):
            c = Case.from_new_peer(f"half open, {kind}{what}")
            c.syn()
            send_error(c, error, segment(c, seq, data=b""))
            settle(c)
            c.tcp(ACK | PSH, data=b"hello")
            c.settle()
    for kind, error in ERRORS.items():
        for what, seq in ("", -1), (", of another number", 100):
            if what and kind != "unreachable, code 1":
                continue
            c = Case.from_new_peer(f"connecting, {kind}{what}")
            c.connecting()
            send_error(c, error, segment(c, seq, frames.SYN, b""))
            settle(c)
            c.settle("error")
            c.tcp(frames.SYN | ACK, seq=-1)
            c.settle("error")


def cases_of_datagrams():
    """The connected socket, the other one, and none."""
    for what, error in ERRORS.items():
        c = Case(f"datagram of the connected socket, {what}")
        send_error(c, error, datagram(7002, 5555))
        settle(c)
        c.port = 5555
        c.settle("answer")
    for what, ports in {
        "the connected socket to another port": (7002, 5559),
        "the other socket": (7001, 5555),
        "a port without a socket": (7999, 5555),
    }.items():
        c = Case(f"datagram of {what}, no port")
        send_error(c, NO_PORT, datagram(*ports))
        settle(c)
    c = Case("datagram of the connected socket to another address, no port")
    send_error(c, NO_PORT, datagram(7002, 5555, dst=LATE))
    settle(c)
    c = Case("datagram of the connected socket, no port, bad checksum")
    send_error(c, NO_PORT, datagram(7002, 5555), csum=1)
    settle(c)
    c = Case("datagram of the connected socket, no port, cut")
    send_error(c, NO_PORT, datagram(7002, 5555)[: 40 if IPV6 else 20])
    settle(c)


def run():
    cases_of_handshake()
    cases_of_connection()
    cases_of_datagrams()  # last: the target remembers the MTU of the path to the peer
