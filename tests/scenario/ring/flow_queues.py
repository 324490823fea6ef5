#!/usr/bin/env python3
"""A flow whose frames come by two RX queues in turn.

    flow_queues.py serve IP PORT N
        prints "ready" when it is bound, "first" after a datagram, then the numbers of the next N
    flow_queues.py hello IP PORT
        sends the first datagram
    flow_queues.py send INTERFACE MAC IP PORT N NAMESPACE
        sends N numbered frames by TX queues 0 and 1 in turn, each when the one before has
        arrived at the interface of that name in the namespace
"""
import json
import os
import socket
import struct
import subprocess
import sys
import time

SOL_PACKET, PACKET_QDISC_BYPASS = 263, 20
PATIENCE = 30  # seconds


def serve(ip, port, n):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((ip, int(port)))
        sock.settimeout(PATIENCE)
        print("ready", flush=True)
        sock.recv(100)
        print("first", flush=True)
        print(*(sock.recv(100).decode() for _ in range(int(n))))


def hello(ip, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((ip, int(port)))
        sock.send(b"hello")


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def frame(macs, ips, port, payload):
    udp = struct.pack("!HHHH", 4000, port, 8 + len(payload), 0) + payload
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, *ips)
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return macs[1] + macs[0] + b"\x08\x00" + header + udp


def send(interface, mac, ip, port, n, namespace):
    """Without the queueing discipline a packet socket sends by the queue of its processor."""
    def arrived():
        link = subprocess.check_output(
            ["ip", "-n", namespace, "-j", "-s", "link", "show", interface])
        return json.loads(link)[0]["stats64"]["rx"]["packets"]

    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        sock.bind((interface, 0))
        macs = sock.getsockname()[4], bytes.fromhex(mac.replace(":", ""))
        ips = socket.inet_aton("10.9.0.1"), socket.inet_aton(ip)
        before = arrived()
        for i in range(int(n)):
            os.sched_setaffinity(0, {i % 2})
            sock.send(frame(macs, ips, int(port), str(i).encode()))
            deadline = time.monotonic() + PATIENCE
            while arrived() < before + i + 1:
                if time.monotonic() > deadline:
                    sys.exit(f"frame {i} did not arrive")


globals()[sys.argv[1]](*sys.argv[2:])
