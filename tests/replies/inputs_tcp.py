# SPDX-License-Identifier: BSD-2-Clause
"""Inputs of TCP, for either family."""
from case import Case
from frames import ACK, CWR, ECE, FIN, PSH, RST, SYN, URG, flags_text


def cases_of_listener():
    for flags in range(64):
        c = Case(f"listen, {flags_text(flags)}")
        c.tcp(flags, seq=-1)
        c.settle()
    for flags in (SYN | ECE | CWR, SYN | ECE, SYN | CWR, SYN | PSH | URG | ECE | CWR):
        c = Case(f"listen, {flags_text(flags)}")
        c.tcp(flags, seq=-1)
        c.settle()
    for flags in (0, SYN, ACK, SYN | ACK, RST, FIN, FIN | ACK, SYN | FIN):
        c = Case(f"closed port, {flags_text(flags)}")
        c.tcp(flags, seq=-1, dport=7999)
        c.settle()
    options = {
        "length 0": b"\x02\x00\x05\xb4",
        "length 1": b"\x02\x01\x05\xb4",
        "beyond the header": b"\x02\x08\x05\xb4",
        "mss 0": b"\x02\x04\x00\x00",
        "mss 1": b"\x02\x04\x00\x01",
        "mss 65535": b"\x02\x04\xff\xff",
        "mss twice": b"\x02\x04\x05\xb4\x02\x04\x02\x00",
        "mss of three bytes": b"\x02\x03\x05\x00",
        "wscale 7": b"\x02\x04\x05\xb4\x03\x03\x07\x00",
        "wscale 200": b"\x02\x04\x05\xb4\x03\x03\xc8\x00",
        "wscale of four bytes": b"\x03\x04\x07\x00",
        "sack permitted": b"\x02\x04\x05\xb4\x04\x02\x01\x01",
        "sack permitted of four bytes": b"\x04\x04\x00\x00",
        "timestamps": b"\x08\x0a\x00\x00\x00\x05\x00\x00\x00\x00\x01\x01",
        "timestamps with an echo": b"\x08\x0a\x00\x00\x00\x05\x00\x00\x00\x07\x01\x01",
        "timestamps of eight bytes": b"\x08\x08\x00\x00\x00\x05\x00\x00",
        "unknown kind": b"\x63\x04\x01\x02",
        "unknown kind of length 0": b"\x63\x00\x01\x02",
        "end, then more": b"\x00\x02\x04\x05",
        "all of them": b"\x02\x04\x05\xb4\x04\x02\x08\x0a\0\0\0\x05\0\0\0\0\x01\x03\x03\x07",
        "nothing but no-operations": b"\x01" * 40,
    }
    for what, value in options.items():
        c = Case(f"listen, SYN, option: {what}")
        c.tcp(SYN, seq=-1, options=value)
        c.settle()
    for doff in (0, 4, 6, 15):
        c = Case(f"listen, SYN, data offset {doff}")
        c.tcp(SYN, seq=-1, doff=doff)
        c.settle()
    for what, kw in {
        "data": {"data": b"early"},
        "urgent": {"urg": 5},
        "bad checksum": {"csum": 1},
        "inverted checksum": {"csum": 0xFFFF},
    }.items():
        c = Case(f"listen, SYN, {what}")
        c.tcp(SYN, seq=-1, **kw)
        c.settle()


def cases_of_handshake():
    for flags in (0, SYN, RST, FIN, ACK, SYN | ACK, RST | ACK, FIN | ACK, PSH | ACK, SYN | RST, FIN | SYN):
        for what, seq, ack in (("", 0, 0), (", ack ahead", 0, 7), (", ack behind", 0, -7), (", seq ahead", 900000, 0)):
            if (ack and not flags & ACK) or (seq and flags & SYN):
                continue
            c = Case(f"half open, {flags_text(flags)}{what}")
            c.syn()
            c.tcp(flags, seq=seq, ack=ack)
            c.settle()
    c = Case("half open, SYN again")
    c.syn()
    c.tcp(SYN, seq=-1, options=b"\x02\x04\x05\xb4")
    c.settle()
    c = Case("half open, ACK with data")
    c.syn()
    c.tcp(ACK | PSH, data=b"hello")
    c.settle()


def cases_of_connection():
    for flags in range(64):
        c = Case(f"connected, {flags_text(flags)}")
        c.establish()
        c.tcp(flags)
        c.settle()
    for what, seq, ack in (
        ("behind", -10, 0),
        ("far behind", -900000, 0),
        ("ahead in the window", 1000, 0),
        ("beyond the window", 9000000, 0),
        ("ack ahead", 0, 1000),
        ("ack behind", 0, -1000),
        ("ack far behind", 0, -900000000),
    ):
        for flags in (ACK, RST, RST | ACK, FIN | ACK, SYN, SYN | ACK):
            if ack and not flags & ACK:
                continue
            c = Case(f"connected, {what}, {flags_text(flags)}")
            c.establish()
            c.tcp(flags, seq=seq, ack=ack)
            c.settle()
    for what, kw in {
        "bad checksum": {"csum": 1},
        "data offset 4": {"doff": 4},
        "data offset 15": {"doff": 15},
    }.items():
        c = Case(f"connected, data, {what}")
        c.establish()
        c.tcp(ACK | PSH, data=b"hello", **kw)
        c.settle()
    for dst in ("broadcast", "group", "group6", "other"):
        c = Case(f"connected, data, to the link address of {dst}")
        c.establish()
        c.dst_mac = dst
        c.tcp(ACK | PSH, data=b"hello")
        c.settle()


def cases_of_sending():
    for what, command in ("at once", "error"), ("with Nagle's algorithm", "delay"):
        for first in ("", "send"):
            c = Case(f"connected, the program sends {'10 and ' if first else ''}3000 bytes {what}")
            c.establish()
            c.settle(command)
            if first:
                c.settle(first)
            c.settle("sendmuch")
            c.tcp(ACK, ack=3000)
            c.settle()


def cases_of_closing():
    states = {
        "close-wait": lambda c: (c.tcp(FIN | ACK), (c.settle(), c.await_ack(1)), 1, 0),
        "fin-wait-1": lambda c: (c.settle("shutdown"), None, 0, 0),
        "fin-wait-2": lambda c: (c.settle("shutdown"), c.tcp(ACK, ack=1), 0, 1),
        "last-ack": lambda c: (c.tcp(FIN | ACK), (c.settle(), c.await_ack(1), c.settle("close")), 1, 0),
        "closed by the program": lambda c: (c.settle("close"), c.tcp(ACK, ack=1), 0, 1),
        "aborted": lambda c: (c.settle("abort"), None, 0, 1),
        "time-wait": lambda c: ((c.settle("close"), c.tcp(FIN | ACK, ack=1)), None, 1, 1),
    }
    for name, enter in states.items():
        for flags in (ACK, RST, RST | ACK, SYN, SYN | ACK, FIN | ACK, FIN, 0):
            c = Case(f"{name}, {flags_text(flags)}")
            c.establish()
            seq, ack = enter(c)[2:]
            c.settle()
            c.tcp(flags, seq=seq, ack=ack)
            c.settle()


def cases_of_connecting():
    """The target's program has called connect()."""
    stamps = b"\x08\x0a\0\0\0\x05\0\0\0\0"
    every = b"\x02\x04\x05\xb4\x04\x02" + stamps + b"\x01\x03\x03\x07"
    for flags in range(64):
        c = Case(f"connecting, {flags_text(flags)}")
        c.connecting()
        c.tcp(flags, seq=-1, options=b"" if flags & ACK else every)
        c.settle("error")
    c = Case("connecting, S without options")
    c.connecting()
    c.tcp(SYN, seq=-1)
    c.settle()
    for what, ack in (("ack ahead", 1), ("ack behind", -1), ("ack far behind", -100000)):
        for flags in (ACK, RST | ACK, SYN | ACK, FIN | ACK, SYN | FIN | ACK, SYN | RST | ACK):
            c = Case(f"connecting, {what}, {flags_text(flags)}")
            c.connecting()
            c.tcp(flags, seq=-1, ack=ack)
            c.settle("error")
    for flags in (0, ACK, RST, RST | ACK, SYN, SYN | ACK, FIN | ACK, PSH | ACK, SYN | RST):
        for what, seq, ack in (("", 0, 0), (", ack ahead", 0, 7), (", ack behind", 0, -7), (", seq ahead", 900000, 0)):
            if (ack and not flags & ACK) or (seq and flags & SYN):
                continue
            c = Case(f"both connecting, {flags_text(flags)}{what}")
            c.connecting()
            c.tcp(SYN, seq=-1, options=every)
            c.settle()
            c.tcp(flags, seq=seq - bool(flags & SYN), ack=ack, options=b"\x01\x01" + stamps)
            c.settle("error")
    for what, kw in {
        "data": {"data": b"early"},
        "bad checksum": {"csum": 1},
        "to port 7000": {"dport": 7000},
    }.items():
        c = Case(f"connecting, SA, {what}")
        c.connecting()
        c.tcp(SYN | ACK, seq=-1, **kw)
        c.settle("error")


def cases_of_reset():
    """Where in the window (RFC 5961 section 3), in each state that has one."""
    states = {
        "connected": (lambda c: None, 0),
        "close-wait": (lambda c: (c.tcp(FIN | ACK), c.settle(), c.await_ack(1)), 1),
        "fin-wait-1": (lambda c: c.settle("shutdown"), 0),
        "fin-wait-2": (lambda c: (c.settle("shutdown"), c.tcp(ACK, ack=1), c.settle()), 0),
        "last-ack": (lambda c: (c.tcp(FIN | ACK), c.settle(), c.await_ack(1), c.settle("close")), 1),
    }
    for name, (enter, seq) in states.items():
        for what, off in (("behind", -1), ("next", 1), ("in the window", 500), ("beyond the window", 9000000)):
            for flags in (RST, RST | ACK, SYN, SYN | ACK):
                c = Case(f"{name}, {flags_text(flags)}, {what}")
                c.establish()
                enter(c)
                c.tcp(flags, seq=seq + off)
                c.settle()


def run():
    cases_of_listener()
    cases_of_handshake()
    cases_of_connection()
    cases_of_sending()
    cases_of_closing()
    cases_of_connecting()
    cases_of_reset()
