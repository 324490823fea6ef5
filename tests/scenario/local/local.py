"""Both ends of connections on one host.

    local.py serve PORT              echoes, one connection at a time, until "stop"
    local.py echo PORT               100 echoes; prints how many were right
    local.py low PORT FROM           the same of a socket that is bound to FROM
    local.py die PORT MODE           sends MODE; prints what is read, and how it ends
    local.py idle PORT               an idle connection, until SIGTERM
    local.py many PORT N             N connections at once, each echoes
    local.py full PORT               connects to a listener of its own that has no room; prints how that ends
    local.py linger PORT             close() with SO_LINGER; prints what it waits for
    local.py bulk PORT BYTES         that many bytes there and back; prints a checksum's verdict

The server does what the first line of a connection says.
"""
import errno
import hashlib
import os
import select
import signal
import socket
import struct
import sys
import threading
import time

from streams import read_all

HOST = "127.0.0.1"


def echo_all(sock):
    while data := sock.recv(65536):
        sock.sendall(data)


def wait_for_the_end(sock):
    try:
        while sock.recv(100):
            pass
        print("end", flush=True)
    except ConnectionResetError:
        print("reset", flush=True)


def serve_one(sock):
    word = read_all(sock, 5)
    if word == b"echo\n":
        echo_all(sock)
    elif word == b"kill\n":
        sock.sendall(b"last words")
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == b"gone\n":  # the client kills itself
        wait_for_the_end(sock)
    elif word == b"stay\n":
        sock.sendall(b"stay")
        sock.recv(1)
    elif word == b"stop\n":
        sock.close()
        return False
    sock.close()
    return True


def serve(port, addr):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((addr, port))
    listener.listen(64)
    print("ready", flush=True)
    running = True
    while running:
        sock, peer = listener.accept()
        assert peer[0] == HOST
        running = serve_one(sock)


def connect(port, word, own=0):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if own:
        sock.bind((HOST, own))
    sock.connect((HOST, port))
    sock.sendall(word)
    return sock


def echo(port, own=0):
    sock = connect(port, b"echo\n", own)
    right = 0
    for i in range(100):
        text = b"%6d" % i
        sock.sendall(text)
        right += read_all(sock, 6) == text
    sock.shutdown(socket.SHUT_WR)
    right += sock.recv(1) == b""
    sock.close()
    print(right)


def die(port, mode):
    sock = connect(port, mode.encode() + b"\n")
    if mode == "gone":
        os.kill(os.getpid(), signal.SIGKILL)
    got = b""
    try:
        while data := sock.recv(100):
            got += data
        print(got.decode(), "end")
    except ConnectionResetError:
        print(got.decode(), "reset")


def idle(port):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with connect(port, b"stay\n") as sock:
        read_all(sock, 4)
        print("ready", flush=True)
        sock.recv(1)


def full(port):
    """One connection waits for accept(), and the next ones for room: as long as TCP_SYNCNT says."""
    listener = socket.create_server((HOST, port), backlog=0)
    first = socket.create_connection((HOST, port))
    blocks, polled = socket.socket(), socket.socket()
    for sock in (blocks, polled):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 1)
    polled.setblocking(False)
    began = time.monotonic()
    assert polled.connect_ex((HOST, port)) == errno.EINPROGRESS
    failed = [errno.errorcode[blocks.connect_ex((HOST, port))]]
    select.select([], [polled], [])
    failed.append(errno.errorcode[polled.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)])
    after = time.monotonic() - began
    listener.accept()[0].sendall(b"text")
    print(*failed, "in time" if 2.5 < after < 10 else after, first.recv(100))


def lingers(read_after, on, seconds):
    """How long close() takes if the peer, whose buffers are full, begins to read then; what it has read."""
    listener = socket.create_server((HOST, 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20000)
    sock = socket.create_connection(listener.getsockname())
    peer = listener.accept()[0]
    sock.setblocking(False)
    written = 0
    try:
        while True:
            written += sock.send(bytes(10000))
    except BlockingIOError:
        pass
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", on, seconds))
    got = []

    def read():
        time.sleep(read_after)
        while data := peer.recv(65536):
            got.append(len(data))

    reader = threading.Thread(target=read)
    reader.start()
    began = time.monotonic()
    sock.close()
    took = time.monotonic() - began
    reader.join()
    return took, sum(got) == written


def linger():
    """Until the peer reads; until the time is over; not at all. The peer gets everything."""
    for read_after, on, seconds, least in (0.5, 1, 30, 0.4), (2.5, 1, 1, 0.9), (0.5, 0, 30, 0):
        took, complete = lingers(read_after, on, seconds)
        print("in time" if least <= took < least + 1 else took, complete, end=" ")
    print()


def bulk(port, n):
    sock = connect(port, b"echo\n")
    there, back = hashlib.sha256(), hashlib.sha256()

    def write():
        block = os.urandom(100000)
        left = n
        while left:
            part = block[: min(left, len(block))]
            sock.sendall(part)
            there.update(part)
            left -= len(part)

    writer = threading.Thread(target=write)
    writer.start()
    left = n
    while left:
        data = sock.recv(70000)
        if not data:
            break
        back.update(data)
        left -= len(data)
    writer.join()
    print("alike" if there.digest() == back.digest() else "not alike", left)


def main():
    what, port = sys.argv[1], int(sys.argv[2])
    if what == "serve":
        serve(port, sys.argv[3] if len(sys.argv) > 3 else HOST)
    elif what == "echo":
        echo(port)
    elif what == "low":
        echo(port, int(sys.argv[3]))
    elif what == "die":
        die(port, sys.argv[3])
    elif what == "idle":
        idle(port)
    elif what == "full":
        full(port)
    elif what == "linger":
        linger()
    elif what == "bulk":
        bulk(port, int(sys.argv[3]))
    elif what == "stop":
        connect(port, b"stop\n").recv(1)


main()
