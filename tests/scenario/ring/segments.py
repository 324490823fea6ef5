"""Datagrams that are sent many at a time (UDP_SEGMENT), and their hashes at both ends.

    segments.py serve PORT              prints "ready", then for each flow "DATAGRAMS BYTES SUM SHA1"
    segments.py send HOST PORT ROUNDS   prints the same for what it sent

SUM is that of the hashes of each datagram, SHA1 the hash of all in order: one that is lost, or joined
with another changes both, one that overtakes another only the latter.
"""
import hashlib
import socket
import struct
import sys

SO_RCVBUFFORCE = 33
UDP_SEGMENT = 103
SIZES = (1200, 1000, 1472, 700)  # of a segment
# And the number of datagrams before it: it is answered when they have arrived.
ROUND = b"round "
END = b"end "


class Tally:
    def __init__(self):
        self.datagrams, self.bytes, self.sum, self.hash = 0, 0, 0, hashlib.sha1()

    def add(self, datagram):
        self.datagrams += 1
        self.bytes += len(datagram)
        self.sum += int.from_bytes(hashlib.sha1(datagram).digest()[:6], "big")
        self.hash.update(struct.pack("!H", len(datagram)) + datagram)

    def tell(self):
        print(self.datagrams, self.bytes, self.sum, self.hash.hexdigest(), flush=True)


def serve(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        sock.bind(("", port))
        print("ready", flush=True)
        tally, mark = Tally(), b""
        while True:
            datagram, sender = sock.recvfrom(65536)
            if datagram.startswith((ROUND, END)):
                mark = datagram
            else:
                tally.add(datagram)
            if not mark or tally.datagrams != int(mark.split()[1]):
                continue
            if mark.startswith(END):
                tally.tell()
                tally = Tally()
            sock.sendto(mark, sender)
            mark = b""


def send_segments(sock, size, data, pieces, tally):
    cut = [data[i : i + size] for i in range(0, len(data), size)]
    each = len(data) // pieces + 1
    vectors = [data[i : i + each] for i in range(0, len(data), each)]
    control = [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", size))]
    if sock.sendmsg(vectors, control) != len(data):
        sys.exit("a part was sent")
    for datagram in cut:
        tally.add(datagram)


def send_one(sock, data, tally):
    sock.send(data)
    tally.add(data)


def await_answer(sock, mark, tally):
    mark += str(tally.datagrams).encode()
    sock.send(mark)
    if sock.recv(100) != mark:
        sys.exit("another answer")


def send(host, port, rounds):
    block, tally = hashlib.sha512(b"segments").digest() * 1024, Tally()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(20)
        sock.connect((host, port))
        for number in range(rounds):
            # Of any length, none like the one before it, with single datagrams between them.
            for part in range(3):
                size = SIZES[(number + part) % len(SIZES)]
                length = 5 * size + (number * 7919 + part * 1543) % (38 * size)
                data = block[number % 64 :][: min(length, 65000)]
                send_one(sock, data[: 9 + number % 1400], tally)
                send_segments(sock, size, data, 1 + (number + part) % 5, tally)
            await_answer(sock, ROUND, tally)
        await_answer(sock, END, tally)
    tally.tell()


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
else:
    send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
