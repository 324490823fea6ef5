# SPDX-License-Identifier: BSD-2-Clause
"""A multicast feed: publish.py GROUP PORT INTERFACE MESSAGES

Messages of 100 bytes that begin with their number, 8 bytes in this host's order; the last one 50
times, in half a second: a reader that has lost it ends, too.
"""
import socket
import struct
import sys
import time

group, port, interface, messages = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
s.connect((group, port))


def send(number):
    s.send(struct.pack("Q", number) + bytes(92))


for number in range(messages):
    send(number)
    if number % 32 == 31:
        time.sleep(0.001)  # the rate of the feed
for _ in range(49):
    time.sleep(0.01)  # the rate of the repetitions
    send(messages - 1)
