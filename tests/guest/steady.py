#!/usr/bin/env python3
"""Traffic that goes on while links change: echoes of echo.py's server.

  steady.py IP PORT OUT

Until SIGTERM, a UDP flow has up to 8 numbered datagrams on their way, and a TCP connection up to
16 blocks of 4 KB, each checked byte by byte.  A datagram whose answer does not come in 200 ms is
lost; a second answer is a duplicate.  OUT is one line, replaced after some answers:

  UDP-ANSWERS TCP-BLOCKS UDP-LOST UDP-DUPLICATES

Says "ready" after the first answers of both.  Fails if a byte is wrong, or the connection ends.
"""

import os
import select
import signal
import socket
import struct
import sys
import time

WINDOW = 8
BLOCK = 4096
BLOCKS = 16
LATE = 0.2


class Datagrams:
    def __init__(self, address):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(address)
        self.socket.setblocking(False)
        self.next = self.answers = self.lost = self.duplicates = 0
        self.waiting = {}
        self.late = set()

    def wants(self):
        return select.POLLIN | (select.POLLOUT if len(self.waiting) < WINDOW else 0)

    def send(self, now):
        while len(self.waiting) < WINDOW:
            try:
                self.socket.send(struct.pack("!Q", self.next) + bytes([self.next & 255]) * 100)
            except BlockingIOError:
                return
            except OSError:
                time.sleep(0.001)  # the link is down: the datagram is lost
            self.waiting[self.next] = now
            self.next += 1

    def receive(self):
        while True:
            try:
                data = self.socket.recv(2048)
            except BlockingIOError:
                return
            except OSError:
                continue
            (number,) = struct.unpack("!Q", data[:8])
            if data[8:] != bytes([number & 255]) * 100:
                sys.exit(f"datagram {number} is damaged")
            if number in self.waiting:
                del self.waiting[number]
                self.answers += 1
            elif number in self.late:
                self.late.remove(number)
                self.lost -= 1
                self.answers += 1
            else:
                self.duplicates += 1

    def expire(self, now):
        for number in [n for n, sent in self.waiting.items() if now - sent > LATE]:
            del self.waiting[number]
            self.late.add(number)
            self.lost += 1


class Stream:
    def __init__(self, address):
        self.socket = socket.create_connection(address, 20)
        self.socket.setblocking(False)
        self.sent = self.received = 0

    def room(self):
        return BLOCK * BLOCKS - (self.sent - self.received)

    def wants(self):
        return select.POLLIN | (select.POLLOUT if self.room() else 0)

    def send(self):
        while size := min(self.room(), BLOCK):
            try:
                self.sent += self.socket.send(pattern(self.sent, size))
            except BlockingIOError:
                return

    def receive(self):
        while True:
            try:
                data = self.socket.recv(BLOCK)
            except BlockingIOError:
                return
            if not data:
                sys.exit("the connection has ended")
            if data != pattern(self.received, len(data)):
                sys.exit(f"the stream is damaged after {self.received} bytes")
            self.received += len(data)


PERIOD = b"".join(struct.pack("!I", i * 2654435761 & 0xffffffff) for i in range(8192))


def pattern(position, size):
    """Repeats after 32 KB, so that any shift of the stream is seen."""
    position %= len(PERIOD)
    return (PERIOD + PERIOD)[position:position + size]


def tell(path, udp, tcp):
    with open(path + ".new", "w") as out:
        print(udp.answers, tcp.received // BLOCK, udp.lost, udp.duplicates, file=out)
    os.replace(path + ".new", path)


def main():
    address = (sys.argv[1], int(sys.argv[2]))
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    udp, tcp = Datagrams(address), Stream(address)
    poller = select.poll()
    told = said = None
    while not stopped:
        poller.register(udp.socket, udp.wants())
        poller.register(tcp.socket, tcp.wants())
        poller.poll(50)
        now = time.monotonic()
        udp.receive()
        tcp.receive()
        udp.expire(now)
        udp.send(now)
        tcp.send()
        state = (udp.answers // 16, tcp.received // BLOCK // 16, udp.lost)
        if state != told:
            told = state
            tell(sys.argv[3], udp, tcp)
        if not said and udp.answers and tcp.received:
            said = True
            print("ready", flush=True)
    tell(sys.argv[3], udp, tcp)
    print(f"{udp.answers} answers, {udp.lost} lost, {udp.duplicates} twice; {tcp.received} bytes")


main()
