# Traffic over an interface with a large MTU.
#
#	jumbo.py serve		echoes datagrams and streams at port 7000, forever
#	jumbo.py ask IP MTU	datagrams of all sizes; then a stream; prints what it saw
import hashlib
import os
import socket
import sys
import threading

PATIENCE = 60
STREAM = 20_000_000
IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_MTU = 10, 2, 14


def echo_datagrams(s):
    while True:
        data, who = s.recvfrom(65536)
        s.sendto(data, who)


def echo_stream(s):
    with s:
        while data := s.recv(1 << 20):
            s.sendall(data)


def serve():
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("", 7000))
    tcp = socket.create_server(("", 7000))
    threading.Thread(target=echo_datagrams, args=(udp,), daemon=True).start()
    print("ready", flush=True)
    while True:
        threading.Thread(target=echo_stream, args=(tcp.accept()[0],), daemon=True).start()


def ask_datagrams(ip, sizes):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(PATIENCE)
    s.connect((ip, 7000))
    for size in sizes:
        for _ in range(10):
            data = os.urandom(size)
            s.send(data)
            assert s.recv(65536) == data, size
    return s


def ask_stream(ip):
    s = socket.create_connection((ip, 7000), PATIENCE)
    data = os.urandom(STREAM)
    writer = threading.Thread(target=s.sendall, args=(data,))
    writer.start()
    got, left = hashlib.sha256(), STREAM
    while left:
        part = s.recv(1 << 20)
        assert part
        got.update(part)
        left -= len(part)
    writer.join()
    assert got.digest() == hashlib.sha256(data).digest()
    return s


def ask(ip, mtu):
    most = mtu - 28
    # Below, at and above what one frame, two and three of 4 KB hold, with their headers.
    whole = [1, 100, 1472, 1473, 3797, 3798, 3799, 4053, 4054, 4055, 7638, 7639, 8149, 8150, most]
    s = ask_datagrams(ip, [n for n in whole if n <= most])
    print("datagrams", flush=True)
    s.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    s.send(bytes(most))
    assert len(s.recv(65536)) == most
    try:
        s.send(bytes(most + 1))
        assert False
    except OSError as e:
        print("too long", e.errno == 90, "mtu", s.getsockopt(socket.IPPROTO_IP, IP_MTU), flush=True)
    sys.stdin.readline()
    ask_datagrams(ip, [most + 1, 2 * most, 60000])
    print("fragments", flush=True)
    s = ask_stream(ip)
    print("stream", "mss", s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG), flush=True)


if sys.argv[1] == "serve":
    serve()
else:
    ask(sys.argv[2], int(sys.argv[3]))
