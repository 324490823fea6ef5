"""Multicast between programs on one host.

    local_mcast.py member PORT [OPTION...]   gets numbers until "end"; prints what was wrong with them
        group=ADDR  another group than 224.9.9.9      bind=ADDR   instead of 0.0.0.0
        only=ADDR   IP_ADD_SOURCE_MEMBERSHIP          not=ADDR    IP_BLOCK_SOURCE
        all=0       IP_MULTICAST_ALL                  peer=ADDR   connected to ADDR and port 9
        told        prints the ancillary data of the first one
        late        its first number is any
        forks=N     forks after N of them
        lossy       numbers may be missing
        child=N     another process sends number N, which has no order among the others
        quiet=SEC   ends when nothing has come for so long, and prints how many came
    local_mcast.py publish PORT [OPTION...]  sends numbers
        count=N     so many, then "end"; else until the kernel has not seen ten of them, then "end"
        until=PATH  until there is this file, then "end"
        pause=SEC   after each 16 of them
        loop=0      IP_MULTICAST_LOOP
        self        it is a member, too, and prints what was wrong
        connect     by a connected socket
        from=PORT   by a socket that is bound to it
        first       it has sent to a socket on this host before
        forks=N     after number N it forks; the child sends the next one by the same socket
        special=N   number N goes with a control message
        settles     begins as without count; prints how much the kernel has seen of what follows
        ttl0        the first number has TTL 0: it stays on this host
        slowest     prints the time of the slowest call, in ms
    local_mcast.py waves PORT FLAG           members come and go until there is the file FLAG
"""
import os
import select
import signal
import socket
import struct
import sys
import time

GROUP = "224.9.9.9"
HOST = os.environ.get("HOST", "10.9.0.2")
PATIENCE = 60
SO_RCVBUFFORCE = 33
IP_PKTINFO, IP_TTL, IP_RECVTTL = 8, 2, 12
SO_MC_ALL = 49
IP_ADD_SOURCE, IP_BLOCK_SOURCE = 39, 38


def options(words):
    return dict(word.partition("=")[::2] for word in words)


def addr(text):
    return socket.inet_aton(text)


def join(sock, opts):
    group = opts.get("group", GROUP)
    if "only" in opts:
        sock.setsockopt(socket.IPPROTO_IP, IP_ADD_SOURCE, addr(group) + addr(HOST) + addr(opts["only"]))
    else:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, addr(group) + addr(HOST))
    if "not" in opts:
        sock.setsockopt(socket.IPPROTO_IP, IP_BLOCK_SOURCE, addr(group) + addr(HOST) + addr(opts["not"]))


def receiver(port, opts):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
    if "all" in opts:
        sock.setsockopt(socket.IPPROTO_IP, SO_MC_ALL, int(opts["all"]))
    if "told" in opts:
        sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
    sock.bind((opts.get("bind", "0.0.0.0"), port))
    join(sock, opts)
    if "peer" in opts:
        sock.connect((opts["peer"], 9))
    sock.settimeout(float(opts.get("quiet", PATIENCE)))
    return sock


class Numbers:
    """What a receiver has got."""

    def __init__(self, opts):
        self.next = None if "late" in opts else 0
        self.lossy = "lossy" in opts
        self.child = int(opts.get("child", -1))
        self.of_child = 0
        self.wrong = []
        self.count = 0

    def take(self, number):
        self.count += 1
        if number == self.child:
            self.of_child += 1
            return
        if self.next == self.child:
            self.next += 1
        expected = number if self.next is None else self.next
        if number < expected or (number > expected and not self.lossy):
            self.wrong.append(f"{number} instead of {expected}")
        self.next = max(number, expected) + 1

    def say(self):
        if self.child >= 0 and self.of_child != 1:
            self.wrong.append(f"{self.of_child} times {self.child}")
        print("good" if not self.wrong else "; ".join(self.wrong[:10]), flush=True)


def told(sock):
    data, ancillary, _, _ = sock.recvmsg(100, 1000)
    for level, kind, value in sorted(ancillary):
        if kind == IP_PKTINFO:
            index, spec, to = struct.unpack("I4s4s", value)
            print("pktinfo", socket.if_indextoname(index), socket.inet_ntoa(spec), socket.inet_ntoa(to))
        else:
            print("ttl", struct.unpack("i", value)[0], flush=True)
    return data


def child_ends():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)


def member(port, opts):
    sock = receiver(port, opts)
    numbers = Numbers(opts)
    print("ready", flush=True)
    data = told(sock) if "told" in opts else sock.recv(100) if "quiet" not in opts else b""
    while data != b"end":
        if data:
            numbers.take(int(data))
        if numbers.count == int(opts.get("forks", -1)):
            child_ends()
        try:
            data = sock.recv(100)
        except (TimeoutError, ConnectionRefusedError):
            if "quiet" not in opts:
                print("it waits for", numbers.next)
            break
    if "quiet" in opts:
        print(numbers.count)
    numbers.say()


def kernel_saw():
    """Datagrams that the kernel has sent or received in this network namespace, and packets to groups."""
    with open("/proc/net/snmp", encoding="ascii") as snmp:
        line = [line.split() for line in snmp if line.startswith("Udp: ")][1]
    with open("/proc/net/netstat", encoding="ascii") as netstat:
        packets = [line.split() for line in netstat if line.startswith("IpExt: ")][1]
    return int(line[1]) + int(line[4]) + int(packets[3])


class Publisher:
    def __init__(self, port, opts):
        self.to = (GROUP, port)
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(opts.get("loop", 1)))
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 3)
        self.own = receiver(port, {}) if "self" in opts else None
        if "from" in opts:
            self.sock.bind((HOST, int(opts["from"])))
        self.numbers = Numbers({})
        self.next = 0
        if "first" in opts:
            self.send_first()
        if "connect" in opts:
            self.sock.connect(self.to)
            self.to = None
        self.special = int(opts.get("special", -1))
        self.slowest = 0.0

    def send_first(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            peer.bind(("127.0.0.1", 0))
            self.sock.sendto(b"first", peer.getsockname())
            assert peer.recv(100) == b"first"

    def child_sends(self):
        pid = os.fork()
        if not pid:
            self.number()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        self.next += 1

    def put(self, data):
        if self.next == self.special:
            self.sock.sendmsg([data], [(socket.IPPROTO_IP, IP_TTL, struct.pack("i", 3))], 0, *[self.to][: bool(self.to)])
        elif self.to:
            self.sock.sendto(data, self.to)
        else:
            self.sock.send(data)

    def number(self):
        start = time.monotonic()
        self.put(b"%d" % self.next)
        self.slowest = max(self.slowest, time.monotonic() - start)
        self.next += 1
        if self.own:
            self.numbers.take(int(self.own.recv(100)))

    def until_quiet(self):
        quiet = 0
        until = time.monotonic() + PATIENCE
        while quiet < 10 and time.monotonic() < until:
            before = kernel_saw()
            self.number()
            quiet = quiet + 1 if kernel_saw() == before else 0
            time.sleep(0.001)

    def number_here(self):
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
        self.number()
        self.sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 3)

    def end(self):
        self.put(b"end")
        if self.own:
            self.numbers.say()


def publish(port, opts):
    publisher = Publisher(port, opts)
    pause = float(opts.get("pause", 0.0005))
    if "until" in opts:
        print("ready", flush=True)
    if "ttl0" in opts:
        publisher.number_here()
    if "settles" in opts or not {"until", "count"} & set(opts):
        publisher.until_quiet()
    before = kernel_saw()
    while publisher.next < int(opts.get("count", 0)) or ("until" in opts and not os.path.exists(opts["until"])):
        publisher.number()
        if publisher.next == int(opts.get("forks", -1)):
            publisher.child_sends()
        if publisher.next % 16 == 0:
            time.sleep(pause)
    publisher.end()
    if "settles" in opts:
        print("kernel", kernel_saw() - before)
    if "slowest" in opts:
        print("slowest", int(publisher.slowest * 1000))
    print("sent", publisher.next)


def waves(port, flag):
    """Members that come, get some numbers, and go: none is missing in between, and none comes twice."""
    wrong = []
    count = 0
    print("ready", flush=True)
    while not os.path.exists(flag):
        sock = receiver(port, {})
        numbers = Numbers({"late": ""})
        ready, _, _ = select.select([sock], [], [], PATIENCE)
        for _ in range(200 if ready else 0):
            data = sock.recv(100)
            if data == b"end":
                break
            numbers.take(int(data))
        wrong += numbers.wrong
        count += 1
        print("again", flush=True)
        sock.close()
    print("good" if not wrong and count > 3 else f"{count}: {wrong[:10]}", flush=True)


def main():
    what, port = sys.argv[1], int(sys.argv[2])
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if what == "waves":
        waves(port, sys.argv[3])
    else:
        {"member": member, "publish": publish}[what](port, options(sys.argv[3:]))


main()
