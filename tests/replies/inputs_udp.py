# SPDX-License-Identifier: BSD-2-Clause
"""Inputs of UDP, for either family."""
from case import GROUP, Case
from frames import ACK, PSH, SYN, group_mac


def cases_of_datagrams():
    for port in (7001, 7002, 7999):
        for what, kw in {
            "good": {},
            "no checksum": {"no_csum": True},
            "bad checksum": {"csum": 1},
            "length 0": {"udp_length": 0},
            "length 7": {"udp_length": 7},
            "length 8": {"udp_length": 8},
            "length 12": {"udp_length": 12},
            "length 14": {"udp_length": 14},
            "empty": {"data": b""},
            "from port 0": {"sport": 0},
        }.items():
            c = Case(f"datagram to {port}, {what}")
            c.udp(dport=port, **kw)
            c.settle()
    c = Case("datagram to the connected socket, from its peer")
    c.port = 5555
    c.udp(dport=7002)
    c.settle()


def from_sender(src, when=""):
    """Datagrams and a SYN of this sender, from a link address that is not the peer's."""
    c = Case(f"{when}datagram from {src}", src=src, mac="attacker")
    c.udp()
    c.settle()
    c = Case(f"{when}datagram to any address from {src}", src=src, mac="attacker")
    c.udp(dport=7003)
    c.settle()
    c = Case(f"{when}SYN from {src}", src=src, mac="attacker")
    c.tcp(SYN, seq=-1, options=b"\x02\x04\x05\xb4")
    c.settle()
    c.tcp(ACK | PSH, data=b"command")
    c.settle()


def both(what, kw):
    """A datagram and a SYN in a strange IP packet."""
    c = Case(f"datagram, {what}")
    c.udp(ip_kw=kw)
    c.settle()
    c = Case(f"SYN, {what}")
    c.tcp(SYN, seq=-1, ip_kw=kw)
    c.settle()


def cases_of_group():
    """A group that a socket has joined."""
    for name, mac in {
        "its own": group_mac(GROUP),
        "another group": group_mac(GROUP)[:5] + b"\0",
        "all": "broadcast",
        "the target": "target",
        "another host": "other",
    }.items():
        for port in (7005, 7003, 7001, 7999):
            c = Case(f"datagram to the group, port {port}, link address of {name}", dst_mac=mac)
            c.udp(dport=port, dst=GROUP)
            c.settle()
        c = Case(f"SYN to the group, link address of {name}", dst_mac=mac)
        c.tcp(SYN, seq=-1, dport=7004, dst=GROUP)
        c.settle()
        c.tcp(ACK | PSH, data=b"command", dport=7004, dst=GROUP)
        c.settle()


def run():
    cases_of_datagrams()
    cases_of_group()
