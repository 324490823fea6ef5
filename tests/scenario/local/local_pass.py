"""Connections on one host that are sent, by SCM_RIGHTS, to a process without the library.

    local_pass.py serve PORT WORD     accepts, and does what the word says
    local_pass.py receive WORD FD     receives from that Unix socket
    local_pass.py client PORT WORD    prints what it sees

Words: see the functions serve_WORD, receive_WORD and client_WORD.
"""
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading

from streams import HOST, LOTS, accept, connect, echo_lines, echoes, line, numbered, read_all, until_end


def resets(sock):
    """Its close is a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def receiver(word, env=None):
    """A process without the library (env: with it), and a Unix socket to it."""
    ours, theirs = socket.socketpair()
    argv = [sys.executable, __file__, "receive", word, str(theirs.fileno())]
    process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], env=env or {"A": "1"})
    theirs.close()
    line(ours)
    return ours, process


def send(way, *socks):
    socket.send_fds(way, [b"x"], [sock.fileno() for sock in socks])


def take(way, n=1):
    fds = socket.recv_fds(way, 1, n)[1]
    socks = [socket.socket(fileno=fd) for fd in fds]
    return socks if n > 1 else socks[0]


def waits_readable(sock):
    select.select([sock], [], [])


# queued: bytes that nobody has read stay in order, in both directions; the sender closes its descriptor.


def serve_queued(listener):
    sock = accept(listener)
    way, _ = receiver("queued")
    read_all(sock, LOTS // 2)
    sock.sendall(numbered(LOTS))
    send(way, sock)
    sock.close()
    select.select([], [], [])


def receive_queued(way):
    sock = take(way)
    whole = read_all(sock, LOTS // 2) == numbered(LOTS)[LOTS // 2 :]
    names = sock.getsockname()[0] == sock.getpeername()[0] == HOST
    sock.sendall(numbered(LOTS))
    sock.sendall(b"%d %d %d\n" % (whole, names, os.get_blocking(sock.fileno())))
    echo_lines(sock)


def client_queued(port):
    sock = connect(port)
    sock.sendall(numbered(LOTS))
    print(read_all(sock, 2 * LOTS) == 2 * numbered(LOTS), line(sock), echoes(sock, 100))
    sock.shutdown(socket.SHUT_WR)
    print(until_end(sock))


# names: the ports, too, and the options; at once there is what had arrived.


def serve_names(listener):
    sock = accept(listener)
    way, _ = receiver("names")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    waits_readable(sock)
    send(way, sock)
    names = sock.getsockname(), sock.getpeername()
    sock.sendall(f"{names}\n".encode())
    try:
        here = sock.recv(100)
        sock.recv(100)
    except BlockingIOError:
        way.sendall(here)
    select.select([], [], [])


def receive_names(way):
    sock = take(way)
    here = line(way)
    sock.sendall(f"{(sock.getsockname(), sock.getpeername())}\n".encode())
    nodelay = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    blocks = os.get_blocking(sock.fileno())
    sock.setblocking(True)
    sock.sendall(b"%d %d %s" % (nodelay, blocks, here))
    sock.close()


def client_names(port):
    sock = connect(port)
    sock.sendall(b"arrived\n")
    own = f"{(sock.getpeername(), sock.getsockname())}\n"
    for _ in range(2):
        told = line(sock).decode()
        print("ports" if told == own else "addresses" if told.count(HOST) == 2 else told)
    print(line(sock))


# client: the side that has connected.


def serve_client(listener):
    sock = accept(listener)
    sock.sendall(b"unread\n")
    echo_lines(sock)


def client_client(port):
    sock = connect(port)
    waits_readable(sock)
    own = sock.getsockname()[0]
    way, process = receiver("client")
    send(way, sock)
    print(own == sock.getsockname()[0], line(way), flush=True)
    process.wait()
    print(echoes(sock, 10))
    sock.shutdown(socket.SHUT_WR)
    print(until_end(sock))


def receive_client(way):
    sock = take(way)
    way.sendall(line(sock).strip() + b" %d\n" % echoes(sock, 10))


# half: each side has shut its half down before.


def serve_half(listener):
    sock = accept(listener)
    way, _ = receiver("half")
    sock.sendall(b"last\n")
    sock.shutdown(socket.SHUT_WR)
    send(way, sock)
    sock.close()
    other = accept(listener)
    waits_readable(other)
    send(way, other)
    other.close()
    select.select([], [], [])


def receive_half(way):
    sock = take(way)
    text = line(sock)
    try:
        sock.send(b"x")
    except BrokenPipeError:
        text += b"broken " + text
    other = take(way)
    other.sendall(text + repr(until_end(other)).encode() + b"\n")
    other.close()
    until_end(sock)


def client_half(port):
    sock = connect(port)
    print(until_end(sock))
    sock.sendall(b"text\n")
    other = connect(port)
    other.sendall(b"rest")
    other.shutdown(socket.SHUT_WR)
    print(until_end(other))
    sock.close()


# sets: epoll sets of the sender go on with it; a thread that blocks on it, too.


def serve_sets(listener):
    sock = accept(listener)
    way, _ = receiver("sets")
    sets = [select.epoll(), select.epoll()]
    sets[0].register(sock, select.EPOLLIN)
    sets[1].register(sock, select.EPOLLIN | select.EPOLLET)
    got = []
    thread = threading.Thread(target=lambda: got.append(line(sock)))
    thread.start()
    send(way, sock)
    sock.sendall(b"sent\n")
    thread.join()
    sock.sendall(b"got " + got[0])
    events = [s.poll() == [(sock.fileno(), select.EPOLLIN)] for s in sets]
    sock.sendall(b"%d %d %s" % (*events, line(sock)))
    echo_lines(sock)


def receive_sets(way):
    sock = take(way)
    until_end(way)
    sock.close()


def client_sets(port):
    sock = connect(port)
    print(line(sock))
    sock.sendall(b"to the thread\n")
    print(line(sock))
    sock.sendall(b"to the set\n")
    print(line(sock), echoes(sock, 10))


# child: the sender has forked, and its child uses the connection, then the receiver does.


def serve_child(listener):
    sock = accept(listener)
    way, _ = receiver("child")
    if os.fork() == 0:
        echo_until_stop(sock)
        os._exit(0)
    report = accept(listener)
    line(report)
    send(way, sock)
    report.sendall(b"sent\n")
    line(report)
    sock.close()
    os.wait()
    way.sendall(b"go\n")
    select.select([], [], [])


def echo_until_stop(sock):
    while (text := line(sock)) != b"stop\n":
        sock.sendall(text)


def receive_child(way):
    sock = take(way)
    line(way)
    echo_lines(sock)


def client_child(port):
    sock = connect(port)
    report = connect(port)
    print(echoes(sock, 10))
    report.sendall(b"send it\n")
    print(line(report), echoes(sock, 100))
    sock.sendall(b"stop\n")
    report.sendall(b"close it\n")
    print(echoes(sock, 100))


# quiet: no child more, no signal.


def serve_quiet(listener):
    socks = [accept(listener) for _ in range(5)]
    heard = []
    way, process = receiver("quiet")
    signal.signal(signal.SIGCHLD, lambda *_: heard.append(1))
    send(way, *socks)
    said = line(way)
    try:
        none = os.waitpid(-1, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        none = False
    signals = len(heard)
    way.sendall(b"end\n")
    pid, _ = os.wait()
    socks[0].sendall(b"%d %d %s" % (signals, none and pid == process.pid, said))


def receive_quiet(way):
    socks = take(way, 5)
    way.sendall(b"%d\n" % sum(line(sock) == b"%d\n" % i for i, sock in enumerate(socks)))
    line(way)


def client_quiet(port):
    socks = [connect(port) for _ in range(5)]
    for i, sock in enumerate(socks):
        sock.sendall(b"%d\n" % i)
    print(line(socks[0]))


# ends: how each way of ending looks at the other side.


def serve_ends(listener):
    way, process = receiver("ends")
    for _ in range(4):
        sock = accept(listener)
        waits_readable(sock)
        send(way, sock)
        sock.close()
        way.sendall(b"go\n")
        line(way)
    process.kill()
    select.select([], [], [])


def receive_ends(way):
    kept = []
    for end in (socket.socket.close, resets, kept.append, kept.append):
        sock = take(way)
        line(way)
        line(sock)
        end(sock)
        way.sendall(b"done\n")
    signal.pause()


def client_ends(port):
    socks = []
    for _ in range(4):
        socks.append(connect(port))
        socks[-1].sendall(b"text\n")
    print([until_end(sock) for sock in socks])


# peer: the peer resets it, and the peer closes it.


def serve_peer(listener):
    report = accept(listener)
    way, _ = receiver("peer")
    for _ in range(2):
        sock = accept(listener)
        send(way, sock)
        sock.close()
        report.sendall(b"sent\n")
        report.sendall(line(way))
    report.close()


def receive_peer(way):
    for _ in range(2):
        sock = take(way)
        sock.sendall(b"here\n")
        way.sendall(repr(until_end(sock)).encode() + b"\n")


def client_peer(port):
    report = connect(port)
    for end in (resets, socket.socket.close):
        sock = connect(port)
        print(line(report), line(sock))
        end(sock)
        print(line(report))


# sender: the sender is killed, and the receiver goes on.


def serve_sender(listener):
    sock = accept(listener)
    way, _ = receiver("sender")
    send(way, sock)
    sock.sendall(b"%d\n" % os.getpid())
    select.select([], [], [])


def receive_sender(way):
    sock = take(way)
    until_end(way)
    sock.sendall(b"alone\n")
    echo_lines(sock)


def client_sender(port):
    sock = connect(port)
    os.kill(int(line(sock)), signal.SIGKILL)
    print(line(sock), echoes(sock, 100))


# relay: the relay is killed; both sides get a reset.


def serve_relay(listener):
    report, sock = accept(listener), accept(listener)
    way, _ = receiver("relay")
    send(way, sock)
    sock.close()
    report.sendall(line(way))
    report.sendall(line(way))
    report.close()


def receive_relay(way):
    sock = take(way)
    way.sendall(b"has it\n")
    way.sendall(repr(until_end(sock)).encode() + b"\n")


def client_relay(port):
    report, sock = connect(port), connect(port)
    print(line(report))
    subprocess.run(["pkill", "-KILL", "-x", "vma-relay"], check=True, env={"PATH": os.environ["PATH"]})
    print(line(report), until_end(sock))


# ours: a receiver with the library, which has it when it is sent to one without.


def serve_ours(listener):
    sock = accept(listener)
    way, _ = receiver("ours", os.environ)
    other, _ = receiver("child")
    send(way, sock)
    sock.sendall(line(way))
    send(other, sock)
    other.sendall(b"go\n")
    sock.sendall(b"twice\n")
    sock.close()
    select.select([], [], [])


def receive_ours(way):
    sock = take(way)
    sock.sendall(b"here\n")
    way.sendall(b"has it\n")
    until_end(way)


def client_ours(port):
    sock = connect(port)
    print(line(sock), line(sock), line(sock), echoes(sock, 10))


# off: a receiver with the library, and without local connections.


def serve_off(listener):
    sock = accept(listener)
    way, _ = receiver("off", dict(os.environ, VMA_LOCAL="0"))
    send(way, sock)
    sock.close()
    select.select([], [], [])


def receive_off(way):
    echo_lines(take(way))


def client_off(port):
    print(echoes(connect(port), 100))


# restarts: the client's end leaves the server's port free.


def serve_restarts(listener):
    sock = accept(listener)
    way, _ = receiver("sets")
    send(way, sock)
    listener.close()
    again = socket.create_server((HOST, int(sys.argv[2])))
    sock.sendall(b"bound\n")
    again.close()


def client_restarts(port):
    print(line(connect(port)))


def main():
    what = sys.argv[1]
    if what == "receive":
        way = socket.socket(fileno=int(sys.argv[3]))
        with open("/proc/self/maps") as maps:
            assert ("libvma" in maps.read()) == ("LD_PRELOAD" in os.environ)
        way.sendall(b"ready\n")
        globals()["receive_" + sys.argv[2]](way)
    elif what == "client":
        globals()["client_" + sys.argv[3]](int(sys.argv[2]))
    else:
        listener = socket.create_server((HOST, int(sys.argv[2])), backlog=256)
        print("ready", flush=True)
        globals()["serve_" + sys.argv[3]](listener)


main()
