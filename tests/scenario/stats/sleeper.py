# SPDX-License-Identifier: BSD-2-Clause
"""What counts_test.sh counts.

    sleeper.py read PORT		prints a line for each datagram that it has received
    sleeper.py send IP PORT		sends a datagram, and stays
    sleeper.py hold IP PORT		a connection; sends a byte for each line of its input
"""
import signal
import sys
from socket import *

way, rest = sys.argv[1], sys.argv[2:]
if way == "read":
    s = socket(AF_INET, SOCK_DGRAM)
    s.bind(("10.9.0.1", int(rest[0])))
    print("ready", flush=True)
    while True:
        print("got", len(s.recv(2048)), flush=True)
elif way == "send":
    s = socket(AF_INET, SOCK_DGRAM)
    s.sendto(b"x", (rest[0], int(rest[1])))
    print("ready", flush=True)
    signal.pause()
else:
    s = create_connection((rest[0], int(rest[1])))
    s.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
    s.send(b"x")
    s.recv(1)
    print("ready", s.getsockname()[1], flush=True)
    for line in sys.stdin:
        s.send(b"y")
        print("sent", flush=True)
