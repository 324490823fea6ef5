"""A stream in bulk, and its hash at both ends.

    bulk.py serve PORT              prints "ready", then for each connection "begun", "BYTES SHA1"
    bulk.py send HOST PORT BYTES    prints the same for what it sent
"""
import hashlib
import socket
import sys


def told(total, digest):
    print(total, digest.hexdigest(), flush=True)


def serve(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Fewer packets on their way than the kernel's queue of a processor has room for.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    listener.bind(("", port))
    listener.listen(5)
    print("ready", flush=True)
    while True:
        conn, _ = listener.accept()
        digest, total = hashlib.sha1(), 0
        with conn:
            try:
                while data := conn.recv(1 << 18):
                    if not total:
                        print("begun", flush=True)
                    digest.update(data)
                    total += len(data)
            except OSError as error:
                print(error.strerror, flush=True)
        told(total, digest)


def send(host, port, total):
    digest, block, number = hashlib.sha1(), hashlib.sha512(b"bulk").digest() * 4096, 0
    with socket.create_connection((host, port)) as conn:
        left = total
        while left:
            # Pieces of any length, none of which is like the one before it.
            number += 1
            size = min(left, 1 + number * 7919 % (len(block) - 64))
            piece = block[number % 64 :][:size]
            conn.sendall(piece)
            digest.update(piece)
            left -= size
    told(total, digest)


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
else:
    send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
