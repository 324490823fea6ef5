# SPDX-License-Identifier: BSD-2-Clause
"""The test side: sends frames, one input after the other, and records what the target
answers and what its program has received.

	replies.py INTERFACE TARGET-MAC RP_FILTER OTHER-INTERFACE OTHER-MAC > transcript

It sends frames on the first interface, and receives on both.

An input ends when the program has answered two requests (see target.py) that were sent
after it.  Numbers that a host may choose (sequence numbers, windows, identification,
timestamps) are left out or given relative to their start; the time of acknowledgements is left out.
"""
import select
import socket
import struct
import sys
import time

INTERFACE, TARGET_MAC, RP_FILTER, OTHER_INTERFACE, OTHER_MAC = sys.argv[1:]
TARGET, PEER, LATE, ROUTER = "10.9.0.2", "10.9.0.66", "10.9.0.67", "10.9.0.1"
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
FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << i for i in range(8))
FLAGS = "FSRPAUEC"



def open_wire(interface):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.bind((interface, 0))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    return s


wire, other_wire = open_wire(INTERFACE), open_wire(OTHER_INTERFACE)
OWN_MACS = [bytes.fromhex(mac.replace(":", "")) for mac in (TARGET_MAC, OTHER_MAC)]


def mac_bytes(name):
    return bytes.fromhex(MACS[name].replace(":", ""))


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def flags_text(flags):
    return "".join(c for i, c in enumerate(FLAGS) if flags >> i & 1) or "-"


# ---- frames ------------------------------------------------------------------------------


def ether(payload, src="peer", dst="target", proto=0x0800):
    return mac_bytes(dst) + mac_bytes(src) + struct.pack("!H", proto) + payload


def ip(proto, payload, src=PEER, dst=TARGET, options=b"", **odd):
    """odd: fields with wrong values."""
    ihl = odd.get("ihl", 5 + len(options) // 4)
    length = odd.get("length", 20 + len(options) + len(payload))
    head = struct.pack(
        "!BBHHHBBH4s4s",
        odd.get("version", 4) << 4 | ihl,
        odd.get("tos", 0),
        length,
        odd.get("id", 1),
        odd.get("frag", 0x4000),
        odd.get("ttl", 64),
        proto,
        0,
        socket.inet_aton(src),
        socket.inet_aton(dst),
    )
    sum_ = checksum(head + options) ^ odd.get("ip_csum", 0)
    return head[:10] + struct.pack("!H", sum_) + head[12:] + options + payload


def pseudo(proto, payload, src, dst):
    return socket.inet_aton(src) + socket.inet_aton(dst) + struct.pack("!BBH", 0, proto, len(payload))


def udp(sport, dport, data, src=PEER, dst=TARGET, **odd):
    length = odd.get("udp_length", 8 + len(data))
    head = struct.pack("!HHHH", sport, dport, length, 0)
    if odd.get("no_csum"):
        return head + data
    sum_ = checksum(pseudo(17, head + data, src, dst) + head + data) or 0xFFFF
    return head[:6] + struct.pack("!H", sum_ ^ odd.get("csum", 0)) + data


def tcp(sport, dport, seq, ack, flags, data=b"", options=b"", src=PEER, dst=TARGET, **odd):
    doff = odd.get("doff", 5 + len(options) // 4)
    head = struct.pack(
        "!HHIIBBHHH", sport, dport, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, doff << 4, flags, 32000, 0, odd.get("urg", 0)
    )
    segment = head + options + data
    sum_ = checksum(pseudo(6, segment, src, dst) + segment) ^ odd.get("csum", 0)
    return segment[:16] + struct.pack("!H", sum_) + segment[18:]


# ---- what comes back ------------------------------------------------------------------------


class Case:
    """One input, or several: the peer's port, and both initial sequence numbers."""

    next_port = 10000

    def __init__(self, name, src=PEER, mac="peer", dst_mac="target"):
        Case.next_port += 1
        self.name, self.src, self.mac, self.dst_mac = name, src, mac, dst_mac
        self.port, self.iss, self.irs = Case.next_port, 1000000, None
        self.acked = 0
        print(f"# {name}")

    # ---- sending
    def frame(self, packet):
        wire.send(ether(packet, self.mac, self.dst_mac))

    def ip(self, proto, payload, **kw):
        kw.setdefault("src", self.src)
        self.frame(ip(proto, payload, **kw))

    def udp(self, dport=7001, data=b"hello", sport=None, dst=TARGET, ip_kw=None, **odd):
        sport = self.port if sport is None else sport
        self.ip(17, udp(sport, dport, data, self.src, dst, **odd), dst=dst, **(ip_kw or {}))

    def tcp(self, flags, seq=0, ack=0, data=b"", options=b"", dport=7000, ip_kw=None, **odd):
        """seq and ack count from the end of the SYNs."""
        segment = tcp(
            self.port,
            dport,
            self.iss + 1 + seq,
            (self.irs or 0) + 1 + ack if flags & ACK or ack else 0,
            flags,
            data,
            options,
            self.src,
            **odd,
        )
        self.ip(6, segment, **(ip_kw or {}))

    # ---- receiving
    def options_text(self, options):
        names = {2: "mss", 3: "wscale", 4: "sackok", 5: "sack", 8: "ts"}
        found, i = set(), 0
        while i < len(options) and options[i]:
            if options[i] == 1:
                i += 1
                continue
            text = names.get(options[i], str(options[i]))
            if options[i] == 2:
                text += str(struct.unpack("!H", options[i + 2 : i + 4])[0])
            found.add(text)
            i += options[i + 1]
        return ",".join(sorted(found))

    def segment_text(self, packet, segment):
        sport, dport, seq, ack, off, flags = struct.unpack("!HHIIBB", segment[:14])
        off = (off >> 4) * 4
        if flags & SYN:
            self.irs = seq
        src, dst = socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20])
        good = checksum(pseudo(6, segment, src, dst) + segment) == 0
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
        options = self.options_text(segment[20:off])
        return text + (f" <{options}>" if options else "") + ("" if good else " BAD CHECKSUM")

    def packet_text(self, packet):
        length = struct.unpack("!H", packet[2:4])[0]
        body = packet[(packet[0] & 15) * 4 : length]
        dst = socket.inet_ntoa(packet[16:20])
        ports = struct.unpack("!HH", body[:4])
        if packet[9] == 6 and ports[1] == self.port:
            text = self.segment_text(packet, body)
            return text and f"to {dst} ttl {packet[8]} {text}"
        if packet[9] == 17 and ports[1] == self.port:
            return f"to {dst} ttl {packet[8]} udp len {len(body) - 8}"
        if packet[9] == 1:
            quoted = body[8 + (body[8] & 15) * 4 :] if len(body) > 8 else b""
            if len(quoted) >= 2 and struct.unpack("!H", quoted[:2])[0] == self.port:
                return f"to {dst} icmp {body[0]}/{body[1]}"
        return None

    def hear(self, frame):
        """The text of a frame of this case, or None."""
        if frame[6:12] not in OWN_MACS or frame[12:14] != b"\x08\x00":
            return None
        text = self.packet_text(frame[14:])
        mac = ":".join(f"{b:02x}" for b in frame[:6])
        return f"< {NAMES.get(mac, mac)} {text}" if text else None

    def settle(self, command="", rounds=2):
        """Waits until the program has answered; records everything that arrived before."""
        heard, told = [], []
        for i in range(rounds):
            tag = f"M{Case.next_port}.{time.monotonic_ns()}"
            question = f"{tag} {command} {self.port}" if command and i == 0 else tag
            packet = ip(17, udp(40000, 7000, question.encode()))
            wire.send(ether(packet))
            told += self.await_answer(tag, heard)
        heard += self.hear_others()
        for line in heard:
            print(line)
        for line in told:
            print(f"= {line}")
        return heard

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
            packet = frame[14:]
            if frame[12:14] != b"\x08\x00" or packet[9] != 17 or frame[6:12] != mac_bytes("target"):
                continue
            if struct.unpack("!HH", packet[20:24]) == (7000, 40000):
                answer = packet[28 : struct.unpack("!H", packet[2:4])[0]].decode().split("\n")
                if answer[0] == tag:
                    return [line.replace(f":{self.port}", ":PORT") for line in answer[1:]]

    def await_ack(self, acked):
        """A host may delay acknowledgements."""
        end = time.monotonic() + 5
        while self.acked < acked:
            if not select.select([wire], [], [], max(0, end - time.monotonic()))[0]:
                raise SystemExit(f"no acknowledgement in: {self.name}")
            text = self.hear(wire.recv(65536))
            if text:
                print(text)

    # ---- states
    def syn(self):
        self.tcp(SYN, seq=-1, options=b"\x02\x04\x05\xb4")
        self.settle()

    def establish(self):
        self.syn()
        self.tcp(ACK)
        self.settle()


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
    c.syn()
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
        c = Case(f"rp_filter {RP_FILTER}, datagram from {src}", src=src, mac="attacker")
        c.udp()
        c.settle()
        c = Case(f"rp_filter {RP_FILTER}, datagram to any address from {src}", src=src, mac="attacker")
        c.udp(dport=7003)
        c.settle()
        c = Case(f"rp_filter {RP_FILTER}, SYN from {src}", src=src, mac="attacker")
        c.syn()
        c.tcp(ACK | PSH, data=b"command")
        c.settle()


def cases_of_link():
    for dst in ("broadcast", "group", "group6", "other"):
        c = Case(f"datagram to the link address of {dst}", dst_mac=dst)
        c.udp()
        c.settle()
        c = Case(f"SYN to the link address of {dst}", dst_mac=dst)
        c.syn()
    for dst in ("10.9.0.255", "255.255.255.255", "224.0.0.1"):
        for mac in ("broadcast", "target"):
            c = Case(f"datagram to {dst}, link address of {mac}", dst_mac=mac)
            c.udp(dport=7003, dst=dst)
            c.settle()


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


def both(what, c_of, kw):
    c = c_of(f"datagram, {what}")
    c.udp(ip_kw=kw)
    c.settle()
    c = c_of(f"SYN, {what}")
    c.tcp(SYN, seq=-1, ip_kw=kw)
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
        both(what, Case, kw)
    c = Case("datagram in two fragments")
    whole = udp(c.port, 7001, b"0123456789abcdef" * 4)
    c.ip(17, whole[:32], frag=0x2000, id=77)
    c.ip(17, whole[32:], frag=4, id=77)
    c.settle()
    c = Case("datagram in two fragments that overlap")
    whole = udp(c.port, 7001, b"0123456789abcdef" * 4)
    c.ip(17, whole[:40], frag=0x2000, id=78)
    c.ip(17, whole[32:], frag=4, id=78)
    c.settle()
    c = Case("SYN in two fragments")
    whole = tcp(c.port, 7000, c.iss, 0, SYN)
    c.ip(6, whole[:16], frag=0x2000, id=79)
    c.ip(6, whole[16:], frag=2, id=79)
    c.settle()
    for size in (1, 14, 20, 33, 34, 41):
        c = Case(f"frame cut to {size} bytes")
        wire.send((ether(ip(17, udp(c.port, 7001, b"")))[:size] + bytes(14))[: max(size, 14)])
        c.settle()


def arp_answers(c):
    """The target asks for the link address of a new sender, and gets an answer."""
    end = time.monotonic() + 0.9
    while select.select([wire], [], [], max(0, end - time.monotonic()))[0]:
        frame = wire.recv(65536)
        if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1" and frame[38:42] == socket.inet_aton(LATE):
            answer = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2) + mac_bytes("late") + socket.inet_aton(LATE)
            wire.send(ether(answer + mac_bytes("target") + frame[28:32], "late", "target", 0x0806))
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


first = Case(f"rp_filter {RP_FILTER}, the first datagram")
first.settle()
cases_of_senders()
if RP_FILTER == "0":
    cases_of_neighbours()
    cases_of_link()
    cases_of_datagrams()
    cases_of_ip()
    cases_of_listener()
    cases_of_handshake()
    cases_of_connection()
    cases_of_closing()
