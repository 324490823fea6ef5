# SPDX-License-Identifier: BSD-2-Clause
"""Frames of both families, right or with one thing wrong: the family is that of the addresses."""
import socket
import struct

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << i for i in range(8))
FLAGS = "FSRPAUEC"
ICMP6_ECHO, ICMP6_SOLICIT, ICMP6_ADVERTISE = 128, 135, 136
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, NOTHING, OPTIONS = 0, 43, 44, 51, 59, 60


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def flags_text(flags):
    return "".join(c for i, c in enumerate(FLAGS) if flags >> i & 1) or "-"


def mac_bytes(mac):
    return bytes.fromhex(mac.replace(":", ""))


def is_ipv6(address):
    return ":" in address


def packed(address):
    return socket.inet_pton(socket.AF_INET6 if is_ipv6(address) else socket.AF_INET, address)


def group_mac(group):
    """The link address of a group: RFC 1112 section 6.4, RFC 2464 section 7."""
    if is_ipv6(group):
        return b"\x33\x33" + packed(group)[12:]
    return b"\x01\x00\x5e" + bytes([packed(group)[1] & 0x7F]) + packed(group)[2:]


def ip4(proto, payload, src, dst, options=b"", **odd):
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
        packed(src),
        packed(dst),
    )
    sum_ = checksum(head + options) ^ odd.get("ip_csum", 0)
    return head[:10] + struct.pack("!H", sum_) + head[12:] + options + payload


def ip6(proto, payload, src, dst, ext=(), **odd):
    """ext: extension headers, each as its number and what follows its first byte."""
    for number, rest in reversed(ext):
        payload = bytes([proto]) + rest + payload
        proto = number
    head = struct.pack(
        "!IHBB",
        odd.get("version", 6) << 28 | odd.get("tos", 0) << 20 | odd.get("label", 0),
        odd.get("length", len(payload)),
        proto,
        odd.get("ttl", 64),
    )
    return head + packed(src) + packed(dst) + payload


def ip(proto, payload, src, dst, **odd):
    return (ip6 if is_ipv6(src) else ip4)(proto, payload, src, dst, **odd)


def pseudo(proto, payload, src, dst):
    if is_ipv6(src):
        return packed(src) + packed(dst) + struct.pack("!II", len(payload), proto)
    return packed(src) + packed(dst) + struct.pack("!BBH", 0, proto, len(payload))


def udp(sport, dport, data, src, dst, **odd):
    length = odd.get("udp_length", 8 + len(data))
    head = struct.pack("!HHHH", sport, dport, length, 0)
    if odd.get("no_csum"):
        return head + data
    sum_ = checksum(pseudo(17, head + data, src, dst) + head + data) or 0xFFFF
    return head[:6] + struct.pack("!H", sum_ ^ odd.get("csum", 0)) + data


def tcp(sport, dport, seq, ack, flags, data, options, src, dst, **odd):
    doff = odd.get("doff", 5 + len(options) // 4)
    head = struct.pack(
        "!HHIIBBHHH", sport, dport, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, doff << 4, flags, 32000, 0, odd.get("urg", 0)
    )
    segment = head + options + data
    sum_ = checksum(pseudo(6, segment, src, dst) + segment) ^ odd.get("csum", 0)
    return segment[:16] + struct.pack("!H", sum_) + segment[18:]


def icmp(kind, code, word, quoted, src, dst, **odd):
    """word: the second four bytes."""
    message = struct.pack("!BBHI", kind, code, 0, word) + quoted
    sum_ = checksum((pseudo(58, message, src, dst) if is_ipv6(src) else b"") + message)
    return message[:2] + struct.pack("!H", sum_ ^ odd.get("csum", 0)) + message[4:]


# ---- what comes back ------------------------------------------------------------------------


def split(packet):
    """Of an IP packet: source, destination, TTL, protocol, and what is behind its headers."""
    if packet[0] >> 4 == 4:
        length = struct.unpack("!H", packet[2:4])[0]
        family, at, ttl, proto, body = socket.AF_INET, 12, packet[8], packet[9], packet[(packet[0] & 15) * 4 : length]
    else:
        length = struct.unpack("!H", packet[4:6])[0]
        family, at, ttl, proto, body = socket.AF_INET6, 8, packet[7], packet[6], packet[40 : 40 + length]
        while proto in (HOP_BY_HOP, ROUTING, FRAGMENT, OPTIONS) and len(body) >= 8:
            proto, body = body[0], body[8 if proto == FRAGMENT else (body[1] + 1) * 8 :]
    size = 4 if family == socket.AF_INET else 16
    src, dst = (socket.inet_ntop(family, packet[i : i + size]) for i in (at, at + size))
    return src, dst, ttl, proto, body


def options_text(options, whole):
    """The options of TCP; whole: the segment size that the interface allows."""
    names = {2: "mss", 3: "wscale", 4: "sackok", 5: "sack", 8: "ts"}
    found, i = set(), 0
    while i < len(options) and options[i]:
        if options[i] == 1:
            i += 1
            continue
        text = names.get(options[i], str(options[i]))
        if options[i] == 2:
            mss = struct.unpack("!H", options[i + 2 : i + 4])[0]
            text += " of the link" if mss == whole else str(mss)
        found.add(text)
        i += options[i + 1]
    return ",".join(sorted(found))
