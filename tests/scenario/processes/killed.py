"""A process that was killed, while its descriptors are still open.

killed.py hold PID	takes copies of the library's descriptors, waits until the kernel is to
			mark the process's death, says "ready", and keeps them
killed.py connect ADDRESS PORT	prints the result: connected, refused, or silence
killed.py mute ADDRESS PORT	a server: says "ready", then "asked N" for the Nth request, and answers none
killed.py answer ADDRESS PORT	a server: says "ready", answers each request, and closes
killed.py visit ADDRESS PORT N	N such requests, one after the other
killed.py ask ADDRESS PORT N	N connections with a request on each; says "ready", and then how they
			ended: "ended N", or "silence N" for those that did not within 10 seconds
"""
import ctypes
import mmap
import os
import signal
import socket
import sys
import time

PIDFD_GETFD = 438
HIDDEN = 512  # the library's descriptors begin here
LIVES = ("map_type:2", "value_size:8", "max_entries:512")


def facts_of(fd):
    with open("/proc/self/fdinfo/%d" % fd, encoding="ascii") as text:
        return ["".join(line.split()) for line in text]


def hold(pid):
    pidfd = os.pidfd_open(pid)
    libc = ctypes.CDLL(None)
    theirs = [int(fd) for fd in os.listdir("/proc/%d/fd" % pid) if int(fd) >= HIDDEN]
    fds = [libc.syscall(PIDFD_GETFD, pidfd, fd, 0) for fd in theirs]
    lives = [fd for fd in fds if fd >= 0 and all(fact in facts_of(fd) for fact in LIVES)]
    for fd in lives:
        words = mmap.mmap(fd, 4096)
        while not any(words[:]):
            time.sleep(0.001)
    print("ready: %d descriptors" % len(fds), flush=True)
    signal.pause()


def connect(address, port):
    try:
        with socket.create_connection((address, port), 5):
            print("connected")
    except ConnectionRefusedError:
        print("refused")
    except TimeoutError:
        print("silence")


def mute(address, port):
    asked = []
    with socket.create_server((address, port), backlog=100) as server:
        print("ready", flush=True)
        while True:
            sock, _ = server.accept()
            asked.append((sock, sock.recv(100)))
            print("asked %d" % len(asked), flush=True)


def answer(address, port):
    with socket.create_server((address, port)) as server:
        print("ready", flush=True)
        while True:
            with server.accept()[0] as sock:
                sock.sendall(sock.recv(100))


def visit(address, port, count):
    for _ in range(count):
        with socket.create_connection((address, port), 10) as sock:
            sock.sendall(b"anybody there?")
            while sock.recv(100):
                pass


def is_ended(sock, end):
    sock.settimeout(max(end - time.monotonic(), 0.001))
    try:
        return sock.recv(100) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def ask(address, port, count):
    socks = [socket.create_connection((address, port), 10) for _ in range(count)]
    for sock in socks:
        sock.sendall(b"anybody there?")
    print("ready", flush=True)
    end = time.monotonic() + 40
    ended = sum(is_ended(sock, end) for sock in socks)
    if ended:
        print("ended %d" % ended)
    if ended < count:
        print("silence %d" % (count - ended))


if sys.argv[1] == "hold":
    hold(int(sys.argv[2]))
elif sys.argv[1] in ("ask", "visit"):
    {"ask": ask, "visit": visit}[sys.argv[1]](sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
else:
    {"connect": connect, "mute": mute, "answer": answer}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
