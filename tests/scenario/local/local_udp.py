"""Datagrams between programs on one host.

    local_udp.py serve PORT [ADDRESS]   does what a datagram says, echoes others, until "stop"
    local_udp.py echo PORT              100 echoes by sendto(); prints how many were right
    local_udp.py connected PORT         the same by send()
    local_udp.py rare PORT              some echoes with pauses between; prints whether they come at once
    local_udp.py kill PORT              the server is killed; prints what send() says then
    local_udp.py gone PORT              sends datagrams, and kills itself
    local_udp.py order PORT HOW         numbered datagrams; prints the server's verdict.  HOW: who
                                        goes to the kernel half-way: sender, receiver, nobody; ring:
                                        the receiver gets another ring
    local_udp.py fork PORT              the server forks; prints who answers
    local_udp.py epoll PORT             the server answers by epoll until it has 200; prints how many
    local_udp.py both PORT [ADDRESS]    a socket of its own is bound there, and connected to the server
    local_udp.py low PORT FROM          echoes of any port, and then of this one; prints how many of
                                        these were right
    local_udp.py idle PORT              an echo, then nothing, until SIGTERM
    local_udp.py late PORT HOW          the server gets its port after the first datagrams, by sendto
                                        or by a connected socket; prints the order of what it gets
    local_udp.py early PORT HOW         sends numbers before a server is there, until the kernel sees
                                        none any more
    local_udp.py again PORT             threads that share a socket send to servers that come and go
    local_udp.py watch PORT             the server for that; prints whether they are in order, and
                                        stays until it is killed
    local_udp.py stop PORT
"""
import errno
import os
import select
import signal
import socket
import sys
import threading
import time

HOST = os.environ.get("HOST", "127.0.0.1")
NUMBERS = 2000
AT_ONCE = 20


def udp(timeout=50):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(timeout)
    return sock


def take_in_order(sock, peer, how):
    """Says every AT_ONCE numbers that there may be more."""
    good = True
    for i in range(NUMBERS):
        got = int(sock.recv(100))
        good = good and got == i
        if i % AT_ONCE == AT_ONCE - 1:
            sock.sendto(b"go", peer)
        if how == b"receiver" and i == NUMBERS // 2 + 3:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        if how == b"ring" and i == NUMBERS // 2 + 3:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.sendto(b"in order" if good else b"not in order", peer)


def fork(sock, peer):
    """The parent reads nothing before the child ends."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    sock.sendto(b"forked", peer)
    data, peer = sock.recvfrom(100)
    sock.sendto(b"child " + data, peer)
    os._exit(0)


def answer_by_epoll(sock):
    """One datagram for each event, so what is left must be told of again."""
    ready = select.epoll()
    ready.register(sock, select.EPOLLIN)
    for _ in range(200):
        if not ready.poll(50):
            return
        data, peer = sock.recvfrom(65536)
        sock.sendto(data, peer)


def serve(port, addr):
    sock = udp(None)
    sock.bind((addr, port))
    print("ready", flush=True)
    data = b""
    while data != b"stop":
        data, peer = sock.recvfrom(65536)
        word = data.split(maxsplit=1)
        if data == b"kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif data == b"fork":
            fork(sock, peer)
        elif word and word[0] == b"order":
            take_in_order(sock, peer, word[1])
        elif data == b"epoll":
            answer_by_epoll(sock)
        else:
            sock.sendto(data, peer)
    sock.close()


def connected(port):
    sock = udp()
    sock.connect((HOST, port))
    return sock


def text_of(i):
    return (b"%6d" % i * (i * 150 + 1))[:65507] if i else b""


def echo(port):
    sock = udp()
    good = 0
    for i in range(100):
        sock.sendto(text_of(i), (HOST, port))
        good += sock.recvfrom(65536) == (text_of(i), (HOST, port))
    sock.close()
    print(good)


def echo_connected(port):
    sock = connected(port)
    good = 0
    for i in range(100):
        sock.send(text_of(i))
        good += sock.recv(65536) == text_of(i)
    sock.close()
    print(good)


def rare(port):
    """Both ends sleep when a datagram comes.  Of all, because a busy machine delays some."""
    sock = udp()
    times = []
    for _ in range(9):
        time.sleep(0.23)
        start = time.monotonic()
        sock.sendto(b"rare", (HOST, port))
        assert sock.recv(100)
        times.append(time.monotonic() - start)
    typical = sorted(times)[len(times) // 2]
    print("at once" if typical < 0.1 else f"after {typical * 1000:.0f} ms")


def ask_by_epoll(port):
    """All at once, so that the server's queue has several."""
    sock = connected(port)
    sock.send(b"epoll")
    for i in range(200):
        sock.send(b"%d" % i)
    print(sum(sock.recv(100) == b"%d" % i for i in range(200)))
    sock.close()


def both(port, addr):
    sock = udp()
    sock.bind((addr, 0))
    sock.connect((HOST, port))
    good = 0
    for i in range(100):
        sock.send(b"%d" % i)
        good += sock.recv(100) == b"%d" % i
    sock.close()
    print(good)


def low(port, own):
    """One that is lost is not awaited for long: none comes then."""
    good = 0
    any_port = connected(port)
    any_port.send(b"first")
    assert any_port.recv(100) == b"first"
    sock = udp(5)
    sock.bind((HOST, own))
    try:
        for i in range(100):
            sock.sendto(text_of(i), (HOST, port))
            good += sock.recv(65536) == text_of(i)
    except TimeoutError:
        pass
    sock.close()
    any_port.close()
    print(good)


def kill(port):
    sock = connected(port)
    sock.send(b"words")
    print(sock.recv(100).decode(), end=" ")
    sock.send(b"kill")
    for _ in range(10000):
        try:
            sock.send(b"anybody?")
        except ConnectionRefusedError:
            print("refused")
            return
        time.sleep(0.001)
    print("never refused")


def gone(port):
    sock = connected(port)
    for i in range(100):
        sock.send(b"%d" % i)
    os.kill(os.getpid(), signal.SIGKILL)


def order(port, how):
    sock = connected(port)
    sock.send(b"order " + how.encode())
    for i in range(NUMBERS):
        if how == "sender" and i == NUMBERS // 2 + 3:
            sock.send(b"", socket.MSG_MORE)  # only the kernel puts datagrams together here
        sock.send(b"%d" % i)
        if i % AT_ONCE == AT_ONCE - 1:
            assert sock.recv(100) == b"go"
    print(sock.recv(100).decode())
    sock.close()


def ask_forked(port):
    sock = connected(port)
    sock.send(b"fork")
    print(sock.recv(100).decode(), end=" ")
    sock.send(b"one")
    print(sock.recv(100).decode(), end=" ")
    sock.send(b"two")
    print(sock.recv(100).decode())
    sock.close()


def idle(port):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with connected(port) as sock:
        sock.settimeout(None)
        sock.send(b"one")
        sock.recv(100)
        print("ready", flush=True)
        sock.recv(100)


def kernel_sent():
    """Datagrams that the kernel has sent in this network namespace."""
    with open("/proc/net/snmp", encoding="ascii") as snmp:
        return int([line.split() for line in snmp if line.startswith("Udp: ")][1][4])


class Numbers:
    """Sends numbers."""

    def __init__(self, port, how):
        self.next = 0
        self.sock = udp()
        self.peer = (HOST, port)
        if how == "connected":
            self.sock.connect(self.peer)
            self.peer = None

    def send(self):
        text = b"%d" % self.next
        try:
            if self.peer:
                self.sock.sendto(text, self.peer)
            else:
                self.sock.send(text)
            self.next += 1
        except ConnectionRefusedError:
            pass  # of one before, and nothing was sent

    def send_until_changed(self):
        """Until the kernel has not seen ten of them.  Its own queue has room for what comes before."""
        quiet = 0
        while quiet < 10:
            before = kernel_sent()
            self.send()
            quiet = quiet + 1 if kernel_sent() == before else 0


def late(port, how):
    numbers = Numbers(port, how)
    for _ in range(3):
        numbers.send()
    server = udp()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    server.bind((HOST, port))
    first = numbers.next
    numbers.send_until_changed()
    got = [int(server.recv(100)) for _ in range(first, numbers.next)]
    print("in order" if got == list(range(first, numbers.next)) else f"got {got}")


def again(port):
    """Each thread's numbers are in order, whatever was lost."""
    sock = udp()
    over = threading.Event()

    def send(who):
        number = 0
        while not over.is_set():
            sock.sendto(b"%d %d" % (who, number), (HOST, port))
            number += 1
            if number % 16 == 0:
                time.sleep(0.0005)  # so that the server keeps up

    threads = [threading.Thread(target=send, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    wrong = 0
    for _ in range(30):
        server = udp()
        server.bind((HOST, port))
        last = [-1, -1, -1]
        for _ in range(1500):
            who, number = map(int, server.recv(100).split())
            wrong += number <= last[who]
            last[who] = number
        server.close()
    over.set()
    for thread in threads:
        thread.join()
    print("in order" if not wrong else f"{wrong} not in order")


def early(port, how):
    numbers = Numbers(port, how)
    numbers.send()
    print("ready", flush=True)
    numbers.send_until_changed()
    numbers.sock.sendto(b"end", (HOST, port))
    print("changed")


def watch(port):
    server = udp()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    server.bind((HOST, port))
    print("ready", flush=True)
    got = []
    data = server.recv(100)
    while data != b"end":
        got.append(int(data))
        data = server.recv(100)
    print("in order" if got == list(range(got[0], got[0] + len(got))) else f"got {got}", flush=True)
    signal.pause()


def main():
    what, port = sys.argv[1], int(sys.argv[2])
    if what == "serve":
        serve(port, sys.argv[3] if len(sys.argv) > 3 else HOST)
    elif what == "order":
        order(port, sys.argv[3])
    elif what in ("late", "early"):
        {"late": late, "early": early}[what](port, sys.argv[3])
    elif what == "low":
        low(port, int(sys.argv[3]))
    elif what == "both":
        both(port, sys.argv[3] if len(sys.argv) > 3 else "0.0.0.0")
    elif what == "stop":
        udp().sendto(b"stop", (HOST, port))
    else:
        {"echo": echo, "connected": echo_connected, "kill": kill, "gone": gone, "fork": ask_forked,
         "idle": idle, "watch": watch, "again": again, "epoll": ask_by_epoll, "rare": rare}[what](port)


main()
