# SPDX-License-Identifier: BSD-2-Clause
"""Reads captures.

    capture_check.py same FILE PEER LOCAL	the frames of FILE (pcapng) are those that the
						kernel's peer saw in PEER (pcap), in each direction
						in order; LOCAL is our address
    capture_check.py comments FILE REGEX	each comment matches
    capture_check.py counts FILE		the counts of all interfaces:
						received dropped accepted delivered
    capture_check.py packets FILE		number of packets
    capture_check.py times FILE			each interface's packets are in order
"""
import re, struct, sys


def die(text):
    print("     " + text)
    sys.exit(1)


def options(data):
    found = {}
    while data:
        code, n = struct.unpack_from("<HH", data)
        if code == 0:
            break
        found[code] = data[4 : 4 + n]
        data = data[4 + (n + 3) // 4 * 4 :]
    return found


class Pcapng:
    def __init__(self, path):
        self.interfaces, self.packets, self.counts = [], [], {}
        data = open(path, "rb").read()
        while data:
            if len(data) < 12:
                die("a block is cut off")
            kind, total = struct.unpack_from("<II", data)
            if total % 4 or total > len(data) or struct.unpack_from("<I", data, total - 4)[0] != total:
                die("a block of type %d has a wrong length" % kind)
            self.block(kind, data[8 : total - 4])
            data = data[total:]

    def block(self, kind, body):
        if kind == 1:
            o = options(body[8:])
            if o[9] != b"\x09":
                die("times are not in nanoseconds")
            self.interfaces.append(o[2].decode())
        elif kind == 6:
            number, high, low, kept, n = struct.unpack_from("<IIIII", body)
            o = options(body[20 + (kept + 3) // 4 * 4 :])
            self.packets.append((number, high << 32 | low, body[20 : 20 + kept], n, o[1].decode(), o[2][0]))
        elif kind == 5:
            o = options(body[12:])
            self.counts[struct.unpack_from("<I", body)[0]] = [struct.unpack("<Q", o[i])[0] for i in (4, 5, 6, 8)]
        elif kind != 0x0A0D0D0A:
            die("a block of type %d" % kind)


def pcap(path):
    """(nsec, frame) of each packet."""
    data = open(path, "rb").read()
    if struct.unpack_from("<I", data)[0] != 0xA1B23C4D:
        die("not a pcap file with nanoseconds")
    data = data[24:]
    while len(data) >= 16:
        sec, nsec, n, _ = struct.unpack_from("<IIII", data)
        yield sec * 10**9 + nsec, data[16 : 16 + n]
        data = data[16 + n :]


def same(path, peer, local):
    ours = Pcapng(path)
    theirs = list(pcap(peer))
    addr = bytes(int(n) for n in local.split("."))
    for name, flag, at in (("sent", 2, 26), ("received", 1, 30)):
        a = [p for p in ours.packets if p[5] == flag]
        b = [p for p in theirs if p[1][at : at + 4] == addr]
        if not a or len(a) != len(b):
            die("%s: %d frames, the peer saw %d" % (name, len(a), len(b)))
        for i, (mine, his) in enumerate(zip(a, b)):
            if mine[2] != his[1] or mine[3] != len(his[1]):
                die("%s: frame %d differs:\n%s\n%s" % (name, i, mine[2].hex(), his[1].hex()))
            if abs(mine[1] - his[0]) > 2 * 10**9:
                die("%s: frame %d has another time" % (name, i))
    if len(ours.packets) != len(theirs):
        die("%d frames, the peer saw %d" % (len(ours.packets), len(theirs)))
    print("     %d frames" % len(theirs))


def main(what, path, *rest):
    if what == "same":
        return same(path, *rest)
    file = Pcapng(path)
    if what == "comments":
        for p in file.packets:
            if not re.fullmatch(rest[0], p[4]):
                die(p[4])
        if not file.packets:
            die("no packets")
    elif what == "counts":
        print(*(sum(n) for n in zip(*file.counts.values())))
    elif what == "packets":
        print(len(file.packets))
    elif what == "times":
        for number in range(len(file.interfaces)):
            times = [p[1] for p in file.packets if p[0] == number]
            if times != sorted(times):
                die("not in order")


main(*sys.argv[1:])
