#!/usr/bin/env python3
"""Uses sockets in the ways that libvma.conf tells apart; says what each call returns.

	use.py STEP...

	udp		20 datagrams from 10.9.0.1:6000 to 10.9.0.2:7000, and their echoes
	connected	the same by a connected socket without an address of its own
	group		20 datagrams of the group 224.9.9.9:6001, sent by our peer, on v0
	tcp IP		one echo of a connection to port 7000
	NAME		one of the functions below
"""
import errno
import select
import struct
import sys
from socket import *

N = 20
HERE, THERE = "10.9.0.1", "10.9.0.2"
SLOW_HERE, SLOW_THERE = "10.9.1.1", "10.9.1.2"
IP_OPTIONS = 4


def attempt(what, fn, *args):
    try:
        result = fn(*args)
        print(what, "fine", flush=True)
        return result
    except OSError as e:
        print(what, "EOPNOTSUPP" if e.errno == errno.EOPNOTSUPP else errno.errorcode[e.errno], flush=True)


def new(kind):
    s = socket(AF_INET, kind)
    s.settimeout(50)
    s.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    return s


def echoes(s, send):
    for i in range(N):
        send(b"%d" % i)
        assert s.recv(100) == b"%d" % i


def udp():
    s = new(SOCK_DGRAM)
    s.bind((HERE, 6000))
    attempt("udp", echoes, s, lambda data: s.sendto(data, (THERE, 7000)))


def connected():
    s = new(SOCK_DGRAM)
    attempt("connect", s.connect, (THERE, 7000))
    attempt("connected", echoes, s, s.send)


def group():
    s = new(SOCK_DGRAM)
    s.bind(("224.9.9.9", 6001))
    s.setsockopt(IPPROTO_IP, IP_ADD_MEMBERSHIP, inet_aton("224.9.9.9") + inet_aton(HERE))
    print("joined", flush=True)
    for i in range(N):
        s.recv(100)
    print("group fine", flush=True)


def tcp(to):
    s = new(SOCK_STREAM)
    if attempt("connect " + to, s.connect, (to, 7000)) is None:
        attempt("tcp " + to, lambda: (s.send(b"x" * 4), s.recv(4)))


def server(port):
    s = new(SOCK_STREAM)
    s.bind(("0.0.0.0", int(port)))
    s.listen()
    print("ready", flush=True)
    while True:
        peer = s.accept()[0]
        while data := peer.recv(1000):
            peer.send(data)


def reasons():
    """A socket for each rule of reason_test.sh, kept until our input ends; a connection may come."""
    kept = [new(SOCK_DGRAM), new(SOCK_DGRAM), new(SOCK_STREAM), new(SOCK_STREAM), new(SOCK_STREAM), new(SOCK_DGRAM),
            new(SOCK_DGRAM), new(SOCK_DGRAM), new(SOCK_DGRAM)]
    kept[0].bind((HERE, 6000))
    kept[1].bind((HERE, 6001))
    kept[2].bind((HERE, 6002))
    kept[2].listen()
    kept[3].bind(("0.0.0.0", 6003))
    kept[3].listen()
    kept[4].connect((THERE, 7000))
    kept[5].connect((THERE, 7000))
    kept[6].sendto(b"x", (THERE, 7009))
    kept[7].connect((SLOW_THERE, 7000))
    kept[8].bind((HERE, 6008))
    print("ready", *(s.fileno() for s in kept), flush=True)
    if kept[3] in select.select([kept[3], sys.stdin], [], [])[0]:
        kept.append(kept[3].accept()[0])
        print("accepted", kept[-1].fileno(), flush=True)
    sys.stdin.read()


# ---- what strict refuses, and what not --------------------------------------------


def slow_tcp():
    s = new(SOCK_STREAM)
    attempt("connect", s.connect, (SLOW_THERE, 7000))
    attempt("connect elsewhere", s.connect, (THERE, 7000))
    s = new(SOCK_STREAM)
    s.setblocking(False)
    attempt("connect at once", s.connect, (SLOW_THERE, 7000))


def slow_send():
    s = new(SOCK_DGRAM)
    for i in range(3):
        attempt("send", s.sendto, b"x", (SLOW_THERE, 7000))
    attempt("send elsewhere", s.sendto, b"x", (THERE, 7000))


def slow_connect():
    s = new(SOCK_DGRAM)
    attempt("connect", s.connect, (SLOW_THERE, 7000))
    attempt("not connected", s.send, b"x")
    attempt("connect elsewhere", s.connect, (THERE, 7000))


def slow_bind():
    attempt("bind", new(SOCK_DGRAM).bind, (SLOW_HERE, 6002))
    attempt("bind elsewhere", new(SOCK_DGRAM).bind, (HERE, 6002))


def slow_listen():
    s = new(SOCK_STREAM)
    attempt("tcp bind", s.bind, (SLOW_HERE, 6003))
    attempt("listen", s.listen)
    try:
        socket(AF_INET, SOCK_STREAM).connect_ex((SLOW_HERE, 6003)) and print("nobody listens")
    except OSError:
        pass


def slow_join():
    s = new(SOCK_DGRAM)
    s.bind(("224.9.9.8", 6004))
    member = inet_aton("224.9.9.8") + inet_aton(SLOW_HERE)
    attempt("join", s.setsockopt, IPPROTO_IP, IP_ADD_MEMBERSHIP, member)
    attempt("left", s.setsockopt, IPPROTO_IP, IP_DROP_MEMBERSHIP, member)
    s = new(SOCK_DGRAM)
    s.setsockopt(IPPROTO_IP, IP_ADD_MEMBERSHIP, member)
    attempt("bind to the group", s.bind, ("224.9.9.8", 6005))


def slow_join6():
    s = socket(AF_INET6, SOCK_DGRAM)
    s.bind(("ff05::98", 6004))
    member = inet_pton(AF_INET6, "ff05::98") + struct.pack("@I", if_nametoindex("j0"))
    attempt("join", s.setsockopt, IPPROTO_IPV6, IPV6_JOIN_GROUP, member)
    attempt("left", s.setsockopt, IPPROTO_IPV6, IPV6_LEAVE_GROUP, member)


def option():
    attempt("option", new(SOCK_DGRAM).setsockopt, IPPROTO_IP, IP_OPTIONS, b"\x01\x01\x01\x00")


def special():
    """Control messages of one send: IP_TTL, which the library knows, and IP_RETOPTS, which it does not."""
    s = new(SOCK_DGRAM)
    attempt("ttl", s.sendmsg, [b"x"], [(IPPROTO_IP, IP_TTL, b"\x09\0\0\0")], 0, (THERE, 7000))
    for i in range(2):
        attempt("retopts", s.sendmsg, [b"x"], [(IPPROTO_IP, IP_RETOPTS, b"\x01\x01\x01\0")], 0, (THERE, 7000))
    attempt("retopts on loopback", s.sendmsg, [b"x"], [(IPPROTO_IP, IP_RETOPTS, b"\x01\x01\x01\0")], 0, ("127.0.0.1", 7000))
    attempt("urgent", s.sendto, b"x", MSG_OOB, (THERE, 7000))
    attempt("plain", s.sendto, b"x", (THERE, 7000))


def families():
    attempt("inet6", socket, AF_INET6, SOCK_STREAM)
    attempt("inet6 connect", socket(AF_INET6, SOCK_STREAM).connect, ("fe80::1", 9))
    attempt("inet6 send", socket(AF_INET6, SOCK_DGRAM).sendto, b"x", ("fe80::1", 9))
    attempt("inet6 to group", socket(AF_INET6, SOCK_DGRAM).sendto, b"x", ("ff02::7", 9))
    attempt("inet6 bind", socket(AF_INET6, SOCK_DGRAM).bind, ("ff05::1", 6010))
    attempt("unix", socket, AF_UNIX, SOCK_STREAM)


def loopback():
    s = new(SOCK_STREAM)
    s.bind(("127.0.0.1", 6006))
    attempt("listen on loopback", s.listen)
    attempt("connect to loopback", new(SOCK_STREAM).connect, ("127.0.0.1", 6006))
    for addr in "127.0.0.1", HERE:
        s = new(SOCK_DGRAM)
        attempt("bind to " + addr, s.bind, (addr, 6007))
        attempt("send to " + addr, new(SOCK_DGRAM).sendto, b"x", (addr, 6007))
        attempt("receive at " + addr, s.recv, 10)
        s.close()


def no_route():
    attempt("tcp without route", new(SOCK_STREAM).connect, ("192.0.2.1", 7000))
    attempt("udp without route", new(SOCK_DGRAM).sendto, b"x", ("192.0.2.1", 7000))


def anywhere():
    s = new(SOCK_STREAM)
    s.bind(("0.0.0.0", 6008))
    attempt("listen anywhere", s.listen)
    attempt("bind anywhere", new(SOCK_DGRAM).bind, ("0.0.0.0", 6008))


def device():
    s = new(SOCK_DGRAM)
    s.setsockopt(SOL_SOCKET, SO_BINDTODEVICE, b"v0")
    attempt("bind on v0", s.bind, ("0.0.0.0", 6009))


steps = sys.argv[1:]
while steps:
    name = steps.pop(0)
    if name in ("tcp", "server"):
        globals()[name](steps.pop(0))
    else:
        globals()[name]()
print("done", flush=True)
