"""Frames with the tag of a VLAN, to a socket on the interface beneath.

    tagged.py serve PORT                prints "ready", then the datagrams until "last", on one line
    tagged.py send IFACE MAC FROM TO PORT
"""
import socket
import struct
import sys


def serve(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("", port))
        print("ready", flush=True)
        while True:
            got = []
            while got[-1:] != ["last"]:
                got.append(sock.recv(100).decode())
            print(*got, flush=True)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF ^ ((total & 0xFFFF) + (total >> 16))


def packet(sender, to, port, payload):
    head = struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(payload), 0, 0x4000, 64, socket.IPPROTO_UDP, 0)
    addrs = socket.inet_aton(sender) + socket.inet_aton(to)
    head = head[:10] + struct.pack("!H", checksum(head + addrs)) + addrs
    return head + struct.pack("!4H", 9, port, 8 + len(payload), 0) + payload


def send(iface, mac, sender, to, port):
    eth = bytes.fromhex(mac.replace(":", "") + "020000000009")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((iface, 0))
        for tag, payload in (
            (struct.pack("!HH", 0x8100, 5), b"vlan-5"),
            (struct.pack("!HH", 0x8100, 3 << 13), b"priority"),
            (b"", b"last"),
        ):
            sock.send(eth + tag + b"\x08\x00" + packet(sender, to, port, payload))


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
else:
    send(*sys.argv[2:6], int(sys.argv[6]))
