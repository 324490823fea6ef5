#!/usr/bin/env python3
"""Echoes, and checks every byte of them.

  echo.py serve IP PORT            UDP and TCP, until it is killed; says "ready"
  echo.py many IP PORT N ROUNDS    N UDP flows and N TCP connections at once
  echo.py sizes IP PORT            one message of each size from 1 to 60,000 bytes

Fails with what was missing, damaged, or late (10 s for each answer).
"""

import selectors
import socket
import sys

TIMEOUT = 10
SIZES = [1, 2, 13, 64, 255, 256, 1000, 1399, 1400, 1447, 1448, 1449, 1471, 1472, 1473, 1500, 2047, 2048,
         2960, 4096, 8192, 16000, 30000, 44000, 60000]


def pattern(seed, size):
    """The byte depends on the message and the position."""
    block = bytes((seed * 31 + i * 7 + (i >> 8)) & 255 for i in range(min(size, 65536)))
    return block[:size]


def family(address):
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def tcp(address):
    s = socket.create_connection(address, TIMEOUT)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def udp(address):
    s = socket.socket(family(address), socket.SOCK_DGRAM)
    s.settimeout(TIMEOUT)
    s.connect(address)
    return s


def serve(address):
    poller = selectors.DefaultSelector()
    listener = socket.create_server(address, family=family(address), backlog=128, dualstack_ipv6=address[0] == "::")
    datagrams = socket.socket(family(address), socket.SOCK_DGRAM)
    datagrams.bind(address)
    for s in (listener, datagrams):
        s.setblocking(False)
        poller.register(s, selectors.EVENT_READ)
    print("ready", flush=True)
    unsent = {}
    while True:
        for key, events in poller.select():
            s = key.fileobj
            if s is listener:
                conn, _ = s.accept()
                conn.setblocking(False)
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                poller.register(conn, selectors.EVENT_READ)
                unsent[conn] = b""
            elif s is datagrams:
                data, peer = s.recvfrom(65536)
                s.sendto(data, peer)
            else:
                answer(poller, s, unsent, events)


def answer(poller, s, unsent, events):
    try:
        if events & selectors.EVENT_READ and len(unsent[s]) < 1 << 20:
            data = s.recv(65536)
            if not data:
                raise ConnectionResetError
            unsent[s] += data
        if unsent[s]:
            unsent[s] = unsent[s][s.send(unsent[s]):]
    except BlockingIOError:
        pass
    except ConnectionError:
        poller.unregister(s)
        del unsent[s]
        s.close()
        return
    poller.modify(s, selectors.EVENT_READ | (selectors.EVENT_WRITE if unsent[s] else 0))


def receive(s, size, stream):
    if not stream:
        return s.recv(65536)
    data = b""
    while len(data) < size:
        more = s.recv(size - len(data))
        if not more:
            break
        data += more
    return data


def exchange(conversations, seed, size):
    """Sends a message on each, then receives the answers; returns the number of right ones."""
    good = 0
    for i, (s, _) in enumerate(conversations):
        s.sendall(pattern(seed + i, size))
    for i, (s, stream) in enumerate(conversations):
        what = f"{'TCP' if stream else 'UDP'} {i}, {size} bytes"
        try:
            data = receive(s, size, stream)
        except OSError as error:
            print(f"{what}: {error}")
            continue
        if data == pattern(seed + i, size):
            good += 1
        else:
            print(f"{what}: {len(data)} bytes came, damaged")
    return good


def main():
    what, ip, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    address = (ip, port)
    if what == "serve":
        serve(address)
    if what == "many":
        n, rounds = int(sys.argv[4]), int(sys.argv[5])
        talks = [(udp(address), False) for _ in range(n)] + [(tcp(address), True) for _ in range(n)]
        good = sum(exchange(talks, r, 32 + 16 * r) for r in range(rounds))
        wanted = len(talks) * rounds
    else:
        talks = [(udp(address), False), (tcp(address), True)]
        good = sum(exchange(talks, i, size) for i, size in enumerate(SIZES))
        wanted = len(talks) * len(SIZES)
    print(f"{good} of {wanted} answers are right")
    sys.exit(good != wanted)


main()
