# SPDX-License-Identifier: BSD-2-Clause
"""One input: sends its frames, and prints what the target answers and what its program has received.

The arguments of the process are those of replies.py.

An input ends when the program has answered two requests (see target.py) that were sent
after it.  Numbers that a host may choose (sequence numbers, windows, identification,
timestamps) are left out or given relative to their start; so are PSH, the time of acknowledgements, and
what timers send again.
Addresses that both families have are called by their names.
"""
import select
import socket
import struct
import sys
import time

import frames
from frames import ACK, FIN, PSH, SYN, flags_text

FAMILY, INTERFACE, TARGET_MAC, RP_FILTER, OTHER_INTERFACE, OTHER_MAC = sys.argv[1:]
IPV6 = FAMILY == "6"
if IPV6:
    TARGET, PEER, LATE = "fd00:9::2", "fd00:9::66", "fd00:9::67"
    GROUP, LINK_MSS = "ff15::7", 1440
else:
    TARGET, PEER, LATE = "10.9.0.2", "10.9.0.66", "10.9.0.67"
    GROUP, LINK_MSS = "239.7.7.7", 1460
MACS = {
    "peer": "02:00:00:00:00:66",
    "attacker": "02:00:00:00:00:aa",
    "router": "02:00:00:00:00:01",
    "late": "02:00:00:00:00:67",
    "target": TARGET_MAC,
    "neighbour of the other interface": "02:00:00:00:00:07",
    "broadcast": "ff:ff:ff:ff:ff:ff",
    "group": "01:00:5e:00:00:01",
    "group6": "33:33:00:00:00:01",
    "other": "02:00:00:00:00:99",
}
NAMES = {mac: name for name, mac in MACS.items()}
ETHERTYPES = {b"\x08\x00": 4, b"\x86\xdd": 6}


def open_wire(interface):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.bind((interface, 0))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    return s


wire, other_wire = open_wire(INTERFACE), open_wire(OTHER_INTERFACE)
OWN_MACS = [frames.mac_bytes(mac) for mac in (TARGET_MAC, OTHER_MAC)]


def mac_of(name):
    """name: of MACS, or the address itself, as bytes."""
    return name if isinstance(name, bytes) else frames.mac_bytes(MACS[name])


def ether(payload, src="peer", dst="target", proto=None):
    if proto is None:
        proto = 0x86DD if IPV6 else 0x0800
    return mac_of(dst) + mac_of(src) + struct.pack("!H", proto) + payload


class Case:
    """One input, or several: the peer's port, and both initial sequence numbers."""

    next_port = 10000

    def __init__(self, name, src=PEER, mac="peer", dst_mac="target"):
        Case.next_port += 1
        self.name, self.src, self.mac, self.dst_mac = name, src, mac, dst_mac
        self.port, self.iss, self.irs = Case.next_port, 1000000, None
        self.acked, self.dport, self.other_iss = 0, 7000, None
        self.peer = PEER
        self.heard_at = {}
        self.records_repeats = False  # of data, as an answer
        print(f"# {name}")

    @classmethod
    def from_new_peer(cls, name):
        """Of a host behind the peer: what the target remembers of its path concerns no other input."""
        n = Case.next_port + 1
        c = cls(name, f"fd00:aa::{n:x}" if IPV6 else f"10.10.{n >> 8}.{n & 255}")
        c.peer = c.src
        return c

    # ---- sending
    def frame(self, packet):
        wire.send(ether(packet, self.mac, self.dst_mac))

    def ip(self, proto, payload, **kw):
        kw.setdefault("src", self.src)
        kw.setdefault("dst", TARGET)
        self.frame(frames.ip(proto, payload, **kw))

    def udp(self, dport=7001, data=b"hello", sport=None, dst=TARGET, ip_kw=None, **odd):
        sport = self.port if sport is None else sport
        self.ip(17, frames.udp(sport, dport, data, self.src, dst, **odd), dst=dst, **(ip_kw or {}))

    def segment(self, flags, seq=0, ack=0, data=b"", options=b"", dport=None, dst=TARGET, **odd):
        """seq and ack count from the end of the SYNs."""
        return frames.tcp(
            self.port,
            self.dport if dport is None else dport,
            self.iss + 1 + seq,
            (self.irs or 0) + 1 + ack if flags & ACK or ack else 0,
            flags,
            data,
            options,
            self.src,
            dst,
            **odd,
        )

    def tcp(self, flags, dst=TARGET, ip_kw=None, **kw):
        self.ip(6, self.segment(flags, dst=dst, **kw), dst=dst, **(ip_kw or {}))

    # ---- receiving
    def segment_text(self, packet, segment):
        sport, dport, seq, ack, off, flags = struct.unpack("!HHIIBB", segment[:14])
        off = (off >> 4) * 4
        if self.is_by_time(flags, seq, len(segment) - off):
            return None
        if flags & SYN:
            self.irs = seq
        if len(segment) > off:
            flags &= ~PSH  # as the host likes
        src, dst = frames.split(packet)[:2]
        good = frames.checksum(frames.pseudo(6, segment, src, dst) + segment) == 0
        seq_text = "zero" if not seq else (seq - (self.irs or 0) - 1 + 2**31) % 2**32 - 2**31
        text = f"tcp {flags_text(flags)} seq {seq_text}"
        if flags & ACK:
            acked = (ack - self.iss - 1 + 2**31) % 2**32 - 2**31
            text += f" ack {acked}"
            late = flags == ACK and len(segment) == off and acked > self.acked
            self.acked = max(self.acked, acked)
            if late:
                return None  # the first segment that acknowledges this may come at any time
        text += f" len {len(segment) - off}"
        options = frames.options_text(segment[20:off], LINK_MSS)
        return text + (f" <{options}>" if options else "") + ("" if good else " BAD CHECKSUM")

    def is_by_time(self, flags, seq, len_):
        """Is it there again because a timer expired?"""
        what, now = (flags & (SYN | FIN | ACK), seq, len_), time.monotonic()
        if not len_ and not flags & (SYN | FIN):
            return False
        if what not in self.heard_at:
            self.heard_at[what] = now
            return False
        age = now - self.heard_at[what]
        if len_ and not self.records_repeats:
            return True
        return flags == SYN or age > (0.5 if flags & SYN else 0.1)

    def quotes_this(self, quoted):
        """Does an error quote a packet of this input?  One whose ports cannot be found does."""
        if len(quoted) < (40 if IPV6 else 24):
            return False
        proto, body = frames.split(quoted + bytes(65536))[3:]
        return proto not in (6, 17) or struct.unpack("!H", body[:2])[0] == self.port

    def address_text(self, address):
        return {self.peer: "PEER", TARGET: "TARGET"}.get(address, address)

    def packet_text(self, packet):
        src, dst, ttl, proto, body = frames.split(packet)
        from_text = "" if src == TARGET else f"from {self.address_text(src)} "
        text = f"{from_text}to {self.address_text(dst)} "
        ports = struct.unpack("!HH", body[:4]) if len(body) >= 4 else (0, 0)
        if proto == 6 and ports[1] == self.other_port():
            self.other_iss = struct.unpack("!I", body[4:8])[0]
        if proto == 6 and ports[1] == self.port:
            segment = self.segment_text(packet, body)
            return segment and f"{text}ttl {ttl} {segment}"
        if proto == 17 and ports[1] == self.port:
            return f"{text}ttl {ttl} udp len {len(body) - 8}"
        if proto == (58 if IPV6 else 1) and body[0] < frames.ICMP6_ECHO and self.quotes_this(body[8:]):
            return f"{text}icmp {body[0]}/{body[1]}"
        return None

    def hear(self, frame):
        """The text of a frame of this case, or None."""
        if frame[6:12] not in OWN_MACS or ETHERTYPES.get(frame[12:14]) != (6 if IPV6 else 4):
            return None
        text = self.packet_text(frame[14:])
        mac = ":".join(f"{b:02x}" for b in frame[:6])
        return f"< {NAMES.get(mac, mac)} {text}" if text else None

    def settle(self, command="", rounds=2):
        """Waits until the program has answered; records everything that arrived before."""
        self.record(*self.ask(command and f"{command} {self.port} {self.peer}", rounds))

    def settle_errors(self, refuse):
        """The same, and also when an error has arrived behind those sent so far: the library reads errors
        later than frames.  refuse(): sends that error, about an attempt to connect to another port."""
        heard, told = self.ask(f"attempt {self.other_port()} {self.peer}", 1)
        end = time.monotonic() + 10
        refuse()
        while "refused" not in told:
            if time.monotonic() > end:
                raise SystemExit(f"no error arrives in: {self.name}")
            more_heard, more_told = self.ask("", 1)
            heard, told = heard + more_heard, told + more_told
        told.remove("refused")
        self.record(heard, told)

    def other_port(self):
        return self.port + 20000

    def record(self, heard, told):
        for line in heard:
            print(line)
        for line in told:
            print(f"= {line}")

    def ask(self, command, rounds):
        heard, told = [], []
        for i in range(rounds):
            tag = f"M{Case.next_port}.{time.monotonic_ns()}"
            question = f"{tag} {command}" if command and i == 0 else tag
            wire.send(ether(frames.ip(17, frames.udp(40000, 7000, question.encode(), PEER, TARGET), PEER, TARGET)))
            told += self.await_answer(tag, heard)
        return heard + self.hear_others(), told

    def hear_others(self):
        """The frames that left by the other interface until now."""
        heard = []
        while select.select([other_wire], [], [], 0)[0]:
            text = self.hear(other_wire.recv(65536))
            if text:
                heard.append(text)
        return heard

    def await_answer(self, tag, heard):
        end = time.monotonic() + 10
        while True:
            if not select.select([wire], [], [], max(0, end - time.monotonic()))[0]:
                raise SystemExit(f"no answer from the program in: {self.name}")
            frame = wire.recv(65536)
            text = self.hear(frame)
            if text:
                heard.append(text)
            if frame[12:14] not in ETHERTYPES or frame[6:12] != mac_of("target"):
                continue
            proto, body = frames.split(frame[14:])[3:]
            if proto == 17 and struct.unpack("!HH", body[:4]) == (7000, 40000):
                answer = body[8:].decode().split("\n")
                if answer[0] == tag:
                    return [self.told_text(line) for line in answer[1:]]

    def told_text(self, line):
        return line.replace(f":{self.port}", ":PORT").replace(self.peer, "PEER")

    def await_(self, what, reached):
        """Records what arrives until then."""
        end = time.monotonic() + 10
        while not reached():
            if not select.select([wire], [], [], max(0, end - time.monotonic()))[0]:
                raise SystemExit(f"no {what} in: {self.name}")
            text = self.hear(wire.recv(65536))
            if text:
                print(text)

    def await_ack(self, acked):
        """A host may delay acknowledgements."""
        self.await_("acknowledgement", lambda: self.acked >= acked)

    # ---- states
    def syn(self):
        self.tcp(SYN, seq=-1, options=b"\x02\x04\x05\xb4")
        self.await_("SYN-ACK", lambda: self.irs is not None)

    def establish(self):
        self.syn()
        self.tcp(ACK)
        self.settle(rounds=1)

    def connecting(self):
        """The target's program connects to this port."""
        self.dport = self.port
        self.settle("connect", rounds=1)
        self.await_("SYN", lambda: self.irs is not None)
