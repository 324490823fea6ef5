"""memcached's text protocol: ADDRESS PORT; ends with 0 when every answer was right."""
import selectors
import socket
import struct
import sys

address = (sys.argv[1], int(sys.argv[2]))


class Client:
    def __init__(self):
        self.sock = socket.create_connection(address)
        self.file = self.sock.makefile("rb")

    def ask(self, request, lines=1):
        self.sock.sendall(request)
        return [self.file.readline().rstrip(b"\r\n") for _ in range(lines)]

    def get(self, key):
        (head,) = self.ask(b"get %s\r\n" % key)
        size = int(head.split()[3])
        value = self.file.read(size + 2)[:size]
        assert self.file.readline() == b"END\r\n"
        return value


def expect(got, wanted):
    assert got == wanted, (got, wanted)


def many_connections():
    clients = [Client() for _ in range(100)]
    for turn in range(20):
        for i, c in enumerate(clients):
            value = b"%d/%d" % (i, turn)
            expect(c.ask(b"set k%d 0 0 %d\r\n%s\r\n" % (i, len(value), value)), [b"STORED"])
        for i, c in enumerate(reversed(clients)):
            expect(c.get(b"k%d" % i), b"%d/%d" % (i, turn))
    for c in clients:
        c.sock.close()


def large_values():
    c = Client()
    value = bytes(i * 7 % 251 for i in range(900_000))
    for i in range(5):
        expect(c.ask(b"set large%d 0 0 %d\r\n%s\r\n" % (i, len(value), value)), [b"STORED"])
    for i in range(5):
        expect(c.get(b"large%d" % i), value)


def pipelines():
    c = Client()
    expect(c.ask(b"set n 0 0 1\r\n0\r\n"), [b"STORED"])
    for _ in range(20):
        c.ask(b"incr n 1\r\n" * 500, 500)
    expect(c.get(b"n"), b"10000")


def a_slow_reader():
    """The server has to wait for room, and serves others meanwhile."""
    slow, quick = Client(), Client()
    value = b"v" * 500_000
    expect(quick.ask(b"set slow 0 0 %d\r\n%s\r\n" % (len(value), value)), [b"STORED"])
    slow.sock.sendall(b"get slow\r\n" * 20)
    for _ in range(50):
        expect(quick.ask(b"set q 0 0 1\r\n1\r\n"), [b"STORED"])
    for _ in range(20):
        expect(slow.file.readline(), b"VALUE slow 0 500000\r\n")
        expect(slow.file.read(500_002), value + b"\r\n")
        expect(slow.file.readline(), b"END\r\n")


def datagrams():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(60)
    s.connect(address)
    wanted = {}
    with selectors.DefaultSelector() as sel:
        sel.register(s, selectors.EVENT_READ)
        for i in range(200):
            s.send(struct.pack("!HHHH", i, 0, 1, 0) + b"get n\r\n")
            assert sel.select(60)
            head, answer = (lambda d: (d[:8], d[8:]))(s.recv(2000))
            expect(struct.unpack("!HHHH", head)[0], i)
            expect(answer, b"VALUE n 0 5\r\n10000\r\nEND\r\n")


many_connections()
large_values()
pipelines()
a_slow_reader()
datagrams()
print("all right")
