# SPDX-License-Identifier: BSD-2-Clause
"""Inputs of IPv6."""
import select
import struct
import time

import frames
from case import LATE, PEER, TARGET, Case, ether, mac_of, wire
from frames import ACK, AUTHENTICATION, FRAGMENT, HOP_BY_HOP, NOTHING, OPTIONS, PSH, ROUTING, SYN, packed
from inputs_udp import both, from_sender

SENDERS = [
    "::",
    "::1",
    "::2",
    "::10.9.0.66",
    "::ffff:10.9.0.66",
    "::ffff:127.0.0.1",
    "::ffff:0:10.9.0.66",
    "64:ff9b::a09:42",
    TARGET,
    "fd00:99::2",
    "fe80::2",
    "fe80::66",
    "fe80:1::66",
    "febf::66",
    "fec0::66",
    "ff01::1",
    "ff02::1",
    "ff02::1:ff00:2",
    "ff0e::1",
    "ff15::7",
    "fd00:9::",
    "2001:db8::8",
    "100::5",
    "2002:a09:42::1",
    "fd00:97::5",
    "fd00:98::5",
    "fd00:172::9",
]


def cases_of_senders():
    """fd00:99::2 is the target's on another interface, fd00:98::/64 is routed there, fd00:97::/64 is a
    blackhole, fd00:172::/64 is unreachable, fe80::66 is on the link."""
    for src in SENDERS:
        from_sender(src)


DESTINATIONS = [
    "::",
    "::1",
    "::ffff:10.9.0.2",
    "::10.9.0.2",
    "fe80::2",
    "fe80::99",
    "fd00:9::",
    "fd00:9::3",
    "fd00:99::2",
    "ff00::1",
    "ff01::1",
    "ff02::1",
    "ff02::2",
    "ff02::1:ff00:2",
    "ff02::1:ff00:3",
    "ff05::2",
    "ff0e::1",
    "ff15::9",
]


def cases_of_destinations():
    """fe80::2 and fd00:99::2 are the target's, fd00:9:: is the anycast address of its subnet's routers."""
    for dst in DESTINATIONS:
        for name, mac in ("the target", "target"), ("a group", "group6"), ("its group", frames.group_mac(dst)):
            if (name == "its group") != dst.startswith("ff") and name != "the target":
                continue
            for src in (PEER, "fe80::66"):
                c = Case(f"datagram to {dst}, link address of {name}, from {src}", src=src, dst_mac=mac)
                c.udp(dport=7003, dst=dst)
                c.settle()
                c = Case(f"SYN to {dst}, link address of {name}, from {src}", src=src, dst_mac=mac)
                c.tcp(SYN, seq=-1, dport=7004, dst=dst)
                c.settle()
                c.tcp(ACK | PSH, data=b"command", dport=7004, dst=dst)
                c.settle()


def cases_of_link():
    for dst in ("broadcast", "group", "group6", "other"):
        c = Case(f"datagram to the link address of {dst}", dst_mac=dst)
        c.udp()
        c.settle()
        c = Case(f"SYN to the link address of {dst}", dst_mac=dst)
        c.tcp(SYN, seq=-1)
        c.settle()


def options(kind, data=b"\0\0\0\0", number=OPTIONS):
    """A header of eight bytes with one option of six."""
    return [(number, bytes([0, kind, len(data)]) + data)]


def fragment(offset, more, number=1):
    return [(FRAGMENT, struct.pack("!BHI", 0, offset << 3 | more, number))]


HEADERS = {
    "hop-by-hop: padding": options(1, number=HOP_BY_HOP),
    "hop-by-hop: one byte of padding": [(HOP_BY_HOP, b"\0\0\0\0\0\0\0")],
    "hop-by-hop: router alert": [(HOP_BY_HOP, b"\0\x05\x02\0\0\x01\0")],
    "hop-by-hop: unknown, skip": options(0x1E, number=HOP_BY_HOP),
    "hop-by-hop: unknown, discard": options(0x5E, number=HOP_BY_HOP),
    "hop-by-hop: unknown, report": options(0x9E, number=HOP_BY_HOP),
    "hop-by-hop: unknown, report unless a group": options(0xDE, number=HOP_BY_HOP),
    "hop-by-hop: jumbo of 80000": [(HOP_BY_HOP, b"\0\xc2\x04" + struct.pack("!I", 80000))],
    "hop-by-hop: jumbo of 8": [(HOP_BY_HOP, b"\0\xc2\x04" + struct.pack("!I", 8))],
    "hop-by-hop: option beyond the header": [(HOP_BY_HOP, b"\0\x01\x40\0\0\0\0")],
    "hop-by-hop: header beyond the frame": [(HOP_BY_HOP, b"\x20\x01\x04\0\0\0\0")],
    "hop-by-hop: twice": options(1, number=HOP_BY_HOP) * 2,
    "destination: padding": options(1),
    "destination: unknown, skip": options(0x1E),
    "destination: unknown, discard": options(0x5E),
    "destination: unknown, report": options(0x9E),
    "destination: unknown, report unless a group": options(0xDE),
    "destination: home address": [(OPTIONS, b"\x02\x01\x02\0\0\xc9\x10" + packed("fd00:9::77"))],
    "destination: limit of encapsulation": options(4, b"\x04"),
    "destination: twice": options(1) * 2,
    "destination, then hop-by-hop": options(1) + options(1, number=HOP_BY_HOP),
    "hop-by-hop, then destination": options(1, number=HOP_BY_HOP) + options(1),
    "routing: type 0, nothing left": [(ROUTING, b"\0\0\0\0\0\0\0")],
    "routing: type 0, one left": [(ROUTING, b"\x02\0\x01\0\0\0\0" + packed("fd00:9::77"))],
    "routing: type 2, one left": [(ROUTING, b"\x02\x02\x01\0\0\0\0" + packed(TARGET))],
    "routing: type 4, nothing left": [(ROUTING, b"\x02\x04\0\0\0\0\0" + packed(TARGET))],
    "routing: unknown type, nothing left": [(ROUTING, b"\0\x63\0\0\0\0\0")],
    "routing: unknown type, one left": [(ROUTING, b"\0\x63\x01\0\0\0\0")],
    "fragment: whole": fragment(0, 0),
    "fragment: the first of more": fragment(0, 1),
    "fragment: from the middle": fragment(16, 1),
    "fragment: the last": fragment(16, 0),
    "fragment: at the end of all": fragment(0x1FFF, 0),
    "authentication": [(AUTHENTICATION, b"\x04\0\0" + struct.pack("!II", 256, 1) + bytes(12))],
    "unknown header": [(0xFD, b"\0\0\0\0\0\0\0")],
    "destination: padding of 8 bytes": [(OPTIONS, b"\x01\x01\x06" + bytes(6) + b"\x1e\x04" + bytes(4))],
    "destination: padding that is used": options(1, b"\0\0\0\1"),
    "destination: unknown, skip, 64 bytes": [(OPTIONS, b"\x07\x1e\x3c" + bytes(60))],
    "destination: unknown, skip, 72 bytes": [(OPTIONS, b"\x08\x1e\x44" + bytes(68))],
    "destination: padding, unknown, report": [(OPTIONS, b"\0\0\0\x9e\x02\0\0")],
}


def cases_of_headers():
    for what, ext in HEADERS.items():
        both(what, {"ext": ext})
    for what in ("hop-by-hop: padding", "destination: padding", "fragment: whole"):
        kw = {"ip_kw": {"ext": HEADERS[what]}}
        c = Case(f"handshake, each segment with {what}")
        c.tcp(SYN, seq=-1, **kw)
        c.settle()
        c.tcp(ACK, **kw)
        c.settle()
        c.tcp(ACK | PSH, data=b"hello", **kw)
        c.settle()
        c = Case(f"handshake, its SYN with {what}")
        c.tcp(SYN, seq=-1, **kw)
        c.settle()
        c.tcp(ACK)
        c.settle()
        c.tcp(ACK | PSH, data=b"hello")
        c.settle()
        c = Case(f"handshake, its ACK with {what}")
        c.syn()
        c.tcp(ACK | PSH, data=b"hello", **kw)
        c.settle()
    for what, ext in HEADERS.items():
        c = Case(f"connected, data with {what}")
        c.establish()
        c.tcp(ACK | PSH, data=b"hello", ip_kw={"ext": ext})
        c.settle()
    for proto in (NOTHING, 50, 4, 41, 132, 0xFD):
        c = Case(f"next header {proto}")
        c.ip(proto, frames.udp(c.port, 7001, b"hello", PEER, TARGET))
        c.settle()


def cases_of_ip():
    for what, kw in {
        "version 4": {"version": 4},
        "version 5": {"version": 5},
        "version 7": {"version": 7},
        "length 0": {"length": 0},
        "length 7": {"length": 7},
        "length 8": {"length": 8},
        "length 19": {"length": 19},
        "length beyond the frame": {"length": 400},
        "length 65535": {"length": 65535},
        "hop limit 0": {"ttl": 0},
        "hop limit 1": {"ttl": 1},
        "hop limit 255": {"ttl": 255},
        "traffic class 255": {"tos": 255},
        "congestion experienced": {"tos": 3},
        "a flow label": {"label": 0xFFFFF},
    }.items():
        both(what, kw)
    for size in (1, 14, 20, 33, 34, 53, 54, 57, 58, 61):
        c = Case(f"frame cut to {size} bytes")
        frame = ether(frames.ip(17, frames.udp(c.port, 7001, b"", PEER, TARGET), PEER, TARGET))
        wire.send((frame[:size] + bytes(14))[: max(size, 14)])
        c.settle()
    for what, proto in ("IPv6 in a frame of IPv4", 0x0800), ("IPv6 in a frame of ARP", 0x0806):
        c = Case(what)
        wire.send(ether(frames.ip(17, frames.udp(c.port, 7001, b"hello", PEER, TARGET), PEER, TARGET), proto=proto))
        c.settle()
    c = Case("a datagram with bytes behind it")
    wire.send(ether(frames.ip(17, frames.udp(c.port, 7001, b"hello", PEER, TARGET), PEER, TARGET) + b"more"))
    c.settle()
    c = Case("a segment with bytes behind it")
    c.establish()
    wire.send(ether(frames.ip(6, c.segment(ACK | PSH, data=b"hello"), PEER, TARGET) + b"more"))
    c.settle()


def cases_of_fragments():
    """Of a header and 64 bytes: where the first one ends, where the second one begins."""
    for what, first, second in (
        ("two fragments", 32, 32),
        ("two fragments that overlap", 40, 32),
        ("two fragments with a hole", 32, 40),
        ("two fragments, the first one of an odd length", 33, 32),
    ):
        for proto in ("datagram", "SYN"):
            c = Case(f"{proto} in {what}")
            if proto == "datagram":
                whole = frames.udp(c.port, 7001, b"0123456789abcdef" * 4, PEER, TARGET)
            else:
                whole = c.segment(SYN, seq=-1, data=b"0123456789abcdef" * 3)
            number = 17 if proto == "datagram" else 6
            c.ip(number, whole[:first], ext=fragment(0, 1, c.port))
            c.ip(number, whole[second:], ext=fragment(second // 8, 0, c.port))
            c.settle()
    c = Case("datagram in fragments, the last one first")
    whole = frames.udp(c.port, 7001, b"0123456789abcdef" * 4, PEER, TARGET)
    c.ip(17, whole[32:], ext=fragment(4, 0, c.port))
    c.ip(17, whole[:32], ext=fragment(0, 1, c.port))
    c.settle()


def advertise(frame):
    """The answer to a solicitation of the kernel's for LATE."""
    src, dst, ttl, proto, body = frames.split(frame[14:])
    if proto != 58 or body[0] != frames.ICMP6_SOLICIT or body[8:24] != packed(LATE):
        return
    told = packed(LATE) + b"\x02\x01" + mac_of("late")
    answer = frames.icmp(frames.ICMP6_ADVERTISE, 0, 0x60000000, told, LATE, src)
    wire.send(ether(frames.ip(58, answer, LATE, src, ttl=255), "late", "target"))


def cases_of_neighbours():
    c = Case("SYN of a sender that is not resolved", src=LATE, mac="late")
    c.tcp(SYN, seq=-1)
    end = time.monotonic() + 0.9
    while c.irs is None and select.select([wire], [], [], max(0, end - time.monotonic()))[0]:
        frame = wire.recv(65536)
        if frame[12:14] == b"\x86\xdd" and frame[6:12] == mac_of("target"):
            advertise(frame)
            text = c.hear(frame)
            if text:
                print(text)
    if c.irs is None:
        print("nothing within 0.9 s")
    c.tcp(ACK | PSH, data=b"hello")
    c.settle()


def run():
    c = Case("the first datagram")
    c.settle()
    cases_of_neighbours()
    cases_of_senders()
    cases_of_destinations()
    cases_of_link()
    cases_of_headers()
    cases_of_ip()
    cases_of_fragments()
