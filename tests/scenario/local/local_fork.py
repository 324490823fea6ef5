"""Connections on one host whose ends move to other processes.

    local_fork.py serve PORT       does what the first line of each connection says, in children
    local_fork.py prefork PORT N   N processes accept; each answers with its pid
    local_fork.py client PORT WORD prints what it sees

Words: child (the child echoes, the parent has closed it), turns (parent and child echo in turns),
killed (the process that has it is killed), orphan (the process that accepted it is killed, its
child echoes), both (the client's child talks to the server's child), pids (one connection each),
brief (connections to children that end soon).
"""
import os
import select
import signal
import socket
import sys
import time

from streams import HOST, echoes, line


def echo_all(sock):
    while data := sock.recv(65536):
        sock.sendall(data)


def in_child(fn, *args):
    pid = os.fork()
    if not pid:
        fn(*args)
        os._exit(0)
    return pid


def serve_child(sock, way):
    """With a way: when its parent says that it has closed the connection."""
    if way:
        way.recv(1)
    sock.sendall(b"%d\n" % os.getpid())
    echo_all(sock)


def child(sock, _):
    ours, theirs = socket.socketpair()
    pid = in_child(serve_child, sock, theirs)
    theirs.close()
    sock.close()
    ours.send(b".")
    ours.close()
    os.waitpid(pid, 0)


def turns(sock, _):
    """One line each: parent, child, parent ..."""
    ours, theirs = socket.socketpair()

    def reply(who, way):
        ours.close()
        while way.recv(1):
            text = line(sock)
            if text:
                sock.sendall(who + text)
            if not text:
                break
            way.send(b".")

    pid = in_child(reply, b"child ", theirs)
    theirs.close()
    while True:
        text = line(sock)
        if not text:
            break
        sock.sendall(b"parent " + text)
        ours.send(b".")
        if not ours.recv(1):
            break
    ours.close()
    sock.close()
    os.waitpid(pid, 0)


def orphan(sock):
    """A process in between accepts nothing more: it dies, and its child has the connection."""

    def middle():
        in_child(serve_child, sock, None)
        sock.close()
        select.select([], [], [])

    pid = in_child(middle)
    sock.close()
    return pid


def serve(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, port))
    listener.listen(64)
    print("ready", flush=True)
    while True:
        sock, _ = listener.accept()
        word = line(sock).strip()
        if word == b"stop":
            break
        if word == b"turns":
            turns(sock, listener)
        elif word == b"orphan":
            pid = orphan(sock)
            sock2, _ = listener.accept()  # the client has its answer
            line(sock2)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            sock2.sendall(b"killed\n")
            sock2.close()
        else:
            child(sock, listener)


def prefork(port, n):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, port))
    listener.listen(64)

    def work():
        while True:
            sock, _ = listener.accept()
            sock.sendall(b"%d\n" % os.getpid())
            echo_all(sock)
            sock.close()

    for _ in range(n):
        in_child(work)
    print("ready", flush=True)
    while True:
        select.select([], [], [])


def connect(port, word):
    sock = socket.create_connection((HOST, port))
    if word:
        sock.sendall(word.encode() + b"\n")
    return sock


def client_both(port):
    sock = connect(port, "both")
    line(sock)
    right = echoes(sock, 10)
    pid = in_child(lambda: print("child", echoes(sock, 50), flush=True))
    os.waitpid(pid, 0)
    print(right + echoes(sock, 10))


def client(port, word):
    if word == "both":
        client_both(port)
    elif word == "child":
        sock = connect(port, word)
        line(sock)
        print(echoes(sock, 100))
        sock.shutdown(socket.SHUT_WR)
        print(sock.recv(1))
    elif word == "brief":
        right = 0
        for _ in range(40):
            sock = connect(port, "child")
            line(sock)
            right += echoes(sock, 1)
            sock.close()
        print(right)
    elif word == "turns":
        sock = connect(port, word)
        seen = []
        for i in range(50):
            sock.sendall(b"%d\n" % i)
            seen.append(line(sock).decode().split())
        good = [["parent", "child"][i % 2] for i in range(50)]
        print(sum(seen[i] == [good[i], str(i)] for i in range(50)))
    elif word == "killed":
        sock = connect(port, word)
        pid = int(line(sock))
        echoes(sock, 1)
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        try:
            data = sock.recv(1)
        except ConnectionResetError:
            data = b""
        # A FIN, as from the kernel, if its parent did not know yet that the child has it; else a reset.
        print("more" if data else "ended", "soon" if time.monotonic() - began < 30 else "late")
    elif word == "orphan":
        sock = connect(port, word)
        line(sock)
        echoes(sock, 1)
        other = connect(port, "kill it")
        line(other)
        print(echoes(sock, 100))
    elif word == "pids":
        pids = set()
        right = 0
        for _ in range(60):
            sock = connect(port, "")
            pids.add(line(sock))
            right += echoes(sock, 1)
            sock.close()
        print(right, len(pids))
    elif word == "stop":
        connect(port, word).recv(1)


def main():
    what, port = sys.argv[1], int(sys.argv[2])
    if what == "serve":
        serve(port)
    elif what == "prefork":
        prefork(port, int(sys.argv[3]))
    else:
        client(port, sys.argv[3])


main()
