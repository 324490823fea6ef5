# SPDX-License-Identifier: BSD-2-Clause
"""Inputs of IPv4."""
import select
import struct
import time

from case import LATE, PEER, RP_FILTER, TARGET, Case, ether, mac_of, wire
from frames import ACK, PSH, SYN, ip, packed, udp
from inputs_udp import both, from_sender

SENDERS = [
    "127.0.0.1",
    TARGET,
    "10.99.0.2",
    "0.0.0.0",
    "0.1.2.3",
    "224.0.0.1",
    "239.255.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "10.9.0.255",
    "10.9.0.0",
    "8.8.8.8",
    "172.31.0.9",
    "10.98.0.5",
    "10.97.0.5",
]


def cases_of_senders():
    """10.99.0.2 is the target's on another interface, 10.98/16 is routed there, 10.97/16 is a
    blackhole, 172.31/16 is unreachable."""
    for src in SENDERS:
        from_sender(src, f"rp_filter {RP_FILTER}, ")


def cases_of_link():
    for dst in ("broadcast", "group", "group6", "other"):
        c = Case(f"datagram to the link address of {dst}", dst_mac=dst)
        c.udp()
        c.settle()
        c = Case(f"SYN to the link address of {dst}", dst_mac=dst)
        c.tcp(SYN, seq=-1)
        c.settle()
    for dst in ("10.9.0.255", "255.255.255.255", "224.0.0.1"):
        for mac in ("broadcast", "target"):
            c = Case(f"datagram to {dst}, link address of {mac}", dst_mac=mac)
            c.udp(dport=7003, dst=dst)
            c.settle()


def cases_of_ip():
    for what, kw in {
        "version 5": {"version": 5},
        "version 6": {"version": 6},
        "header length 4": {"ihl": 4},
        "header length 15": {"ihl": 15},
        "total length 19": {"length": 19},
        "total length 20": {"length": 20},
        "total length 24": {"length": 24},
        "total length beyond the frame": {"length": 400},
        "bad header checksum": {"ip_csum": 1},
        "TTL 0": {"ttl": 0},
        "TTL 1": {"ttl": 1},
        "TOS 255": {"tos": 255},
        "may be fragmented": {"frag": 0},
        "the reserved bit": {"frag": 0x8000},
        "first fragment of more": {"frag": 0x2000},
        "a fragment from the middle": {"frag": 0x2010},
        "the last fragment": {"frag": 0x0010},
        "option: no-operations": {"options": b"\x01\x01\x01\x00"},
        "option: record route": {"options": b"\x07\x07\x04\0\0\0\0\0"},
        "option: timestamp": {"options": b"\x44\x08\x05\0\0\0\0\0"},
        "option: loose source route": {"options": b"\x83\x07\x04\x0a\x09\x00\x01\x00"},
        "option: loose source route, at its end": {"options": b"\x83\x07\x08\x0a\x09\x00\x01\x00"},
        "option: strict source route": {"options": b"\x89\x07\x04\x0a\x09\x00\x01\x00"},
        "option: router alert": {"options": b"\x94\x04\0\0"},
        "option: unknown": {"options": b"\x5e\x04\0\0"},
        "option: of length 0": {"options": b"\x07\0\0\0"},
        "option: beyond the header": {"options": b"\x07\x27\x04\0"},
    }.items():
        both(what, kw)
    for what, end in {"": 32, " that overlap": 40}.items():
        c = Case(f"datagram in two fragments{what}")
        whole = udp(c.port, 7001, b"0123456789abcdef" * 4, PEER, TARGET)
        c.ip(17, whole[:end], frag=0x2000, id=c.port)
        c.ip(17, whole[32:], frag=4, id=c.port)
        c.settle()
    c = Case("SYN in two fragments")
    whole = c.segment(SYN, seq=-1)
    c.ip(6, whole[:16], frag=0x2000, id=79)
    c.ip(6, whole[16:], frag=2, id=79)
    c.settle()
    for size in (1, 14, 20, 33, 34, 41):
        c = Case(f"frame cut to {size} bytes")
        frame = ether(ip(17, udp(c.port, 7001, b"", PEER, TARGET), PEER, TARGET))
        wire.send((frame[:size] + bytes(14))[: max(size, 14)])
        c.settle()


def arp_answers(c):
    """The target asks for the link address of a new sender, and gets an answer."""
    end = time.monotonic() + 0.9
    while select.select([wire], [], [], max(0, end - time.monotonic()))[0]:
        frame = wire.recv(65536)
        if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1" and frame[38:42] == packed(LATE):
            answer = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2) + mac_of("late") + packed(LATE)
            wire.send(ether(answer + mac_of("target") + frame[28:32], "late", "target", 0x0806))
        text = c.hear(frame)
        if text:
            print(text)
            return
    print("nothing within 0.9 s")


def cases_of_neighbours():
    c = Case("SYN of a sender that is not resolved", src=LATE, mac="late")
    c.tcp(SYN, seq=-1)
    arp_answers(c)
    c.tcp(ACK | PSH, data=b"hello")
    c.settle()


def run():
    c = Case(f"rp_filter {RP_FILTER}, the first datagram")
    c.settle()
    cases_of_senders()
    if RP_FILTER == "0":
        cases_of_neighbours()
        cases_of_link()
        cases_of_ip()
