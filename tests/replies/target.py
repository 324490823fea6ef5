# SPDX-License-Identifier: BSD-2-Clause
"""The program under test: reports what it receives when the other side asks.

	target.py INTERFACE ADDRESS GROUP PEER

A datagram to port 7000 that begins with "M" is a request. The program executes the command in it, if
any, for the connection whose peer has this port: see obey(). Then it reads everything that has
arrived, and reports it in the answer.
"""
import errno
import os
import select
import socket
import struct
import sys

INTERFACE, ADDRESS, GROUP, PEER = sys.argv[1:]
FAMILY = socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET
ANY = "::" if FAMILY == socket.AF_INET6 else "0.0.0.0"
log = []
current = ""  # tag of the input
connections = {}
attempts = []


def udp(port, address=ADDRESS, peer_port=None):
    s = socket.socket(FAMILY, socket.SOCK_DGRAM)
    s.bind((address, port))
    if peer_port:
        s.connect((PEER, peer_port))
    s.setblocking(False)
    return s


def listen(port, address):
    s = socket.socket(FAMILY, socket.SOCK_STREAM)
    s.bind((address, port))
    s.listen(100)
    s.setblocking(False)
    return s


def join(s):
    index = socket.if_nametoindex(INTERFACE)
    if FAMILY == socket.AF_INET6:
        member = socket.inet_pton(FAMILY, GROUP) + struct.pack("I", index)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, member)
    else:
        member = socket.inet_aton(GROUP) + socket.inet_aton(ADDRESS) + struct.pack("i", index)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)


asked = udp(7000)
datagrams = {
    7001: udp(7001),
    7002: udp(7002, peer_port=5555),
    7003: udp(7003, ANY),
    7005: udp(7005, ANY),
}
join(datagrams[7005])
listeners = [listen(7000, ADDRESS), listen(7004, ANY)]


def name(error):
    return errno.errorcode.get(error, str(error))


def read_datagrams():
    for port, s in datagrams.items():
        while True:
            try:
                data, who = s.recvfrom(65536)[:2]
                log.append(f"udp {port} {len(data)} bytes from {who[0]}:{who[1]}")
            except BlockingIOError:
                break
            except OSError as error:
                log.append(f"udp {port} {name(error.errno)}")


def read_connection(port):
    while True:
        try:
            data = connections[port].recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            log.append(f"tcp {name(error.errno)}")
            del connections[port]
            return
        if not data:
            log.append("tcp end")
            connections[port].ended = True
            return
        log.append(f"tcp {len(data)} bytes")


class Connection(socket.socket):
    ended = False


def keep(s, port):
    c = Connection(fileno=s.detach())
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    c.setblocking(False)
    connections[port] = c
    return c


def accept_all(listener):
    while True:
        try:
            s, who = listener.accept()
        except BlockingIOError:
            break
        keep(s, who[1])
        log.append(f"accepted {who[0]}")


def read_attempts():
    for s in list(attempts):
        try:
            s.recv(1)
        except BlockingIOError:
            pass
        except OSError:
            attempts.remove(s)
            log.append("refused")


def read_all():
    read_attempts()
    for listener in listeners:
        accept_all(listener)
    for port in list(connections):
        if not connections[port].ended:
            read_connection(port)
    read_datagrams()


# ---- commands ------------------------------------------------------------------------------


def close(c, port):
    del connections[port]
    c.close()


def abort(c, port):
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    close(c, port)


def report_error(c, port):
    error = c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    log.append(f"SO_ERROR {name(error) if error else 'none'}")
    c.getpeername()


COMMANDS = {
    "abort": abort,
    "close": close,
    "error": report_error,
    "delay": lambda c, port: c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0),
    "send": lambda c, port: c.send(b"x" * 10),
    "sendmuch": lambda c, port: c.send(b"x" * 3000),
    "shutdown": lambda c, port: c.shutdown(socket.SHUT_WR),
}


def connect(port, peer):
    s = socket.socket(FAMILY, socket.SOCK_STREAM)
    s.bind((ADDRESS, port))
    s.setblocking(False)
    try:
        s.connect((peer, port))
    except BlockingIOError:
        pass
    return s


def obey(command, port, peer):
    try:
        if command == "connect":
            keep(connect(port, peer), port)
        elif command == "attempt":
            attempts.append(connect(port, peer))
            return
        elif command == "answer":
            datagrams[7002].send(b"answer")
        elif port in connections:
            COMMANDS[command](connections[port], port)
        else:
            log.append("no connection")
            return
        log.append(command)
    except OSError as error:
        log.append(f"{command} {name(error.errno)}")


def forget_others(tag):
    """An input has a connection of its own: those of earlier ones end."""
    global current
    if tag == current:
        return
    current = tag
    for port in [port for port in connections if port != int(tag[1:])]:
        abort(connections[port], port)
    while attempts:
        attempts.pop().close()


print("ready", flush=True)
while True:
    select.select([asked, *listeners, *datagrams.values()], [], [])
    read_all()
    while True:
        try:
            question, who = asked.recvfrom(65536)
        except BlockingIOError:
            break
        words = question.decode().split()
        forget_others(words[0].split(".")[0])
        read_all()
        if len(words) > 1:
            obey(words[1], int(words[2]), words[3])
            read_all()
        asked.sendto("\n".join(words[:1] + log).encode(), who)
        log.clear()
