# SPDX-License-Identifier: BSD-2-Clause
"""The program under test: reports what it receives when the other side asks.

	target.py ADDRESS

A datagram to port 7000 that begins with "M" is a request. The program executes the command in it,
if any: close, shutdown or send PORT, for the connection whose peer has this port. Then it reads
everything that has arrived, and reports it in the answer.
"""
import errno
import os
import select
import socket
import struct
import sys

ADDRESS = sys.argv[1]
log = []
connections = {}


def udp(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("0.0.0.0" if port == 7003 else ADDRESS, port))
    s.setblocking(False)
    return s


asked = udp(7000)
datagrams = {port: udp(port) for port in (7001, 7002, 7003)}
datagrams[7002].connect(("10.9.0.66", 5555))
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
listener.bind((ADDRESS, 7000))
listener.listen(100)
listener.setblocking(False)


def name(error):
    return errno.errorcode.get(error.errno, str(error))


def read_datagrams():
    for port, s in datagrams.items():
        while True:
            try:
                data, who = s.recvfrom(65536)
                log.append(f"udp {port} {len(data)} bytes from {who[0]}:{who[1]}")
            except BlockingIOError:
                break
            except OSError as error:
                log.append(f"udp {port} {name(error)}")


def read_connection(port):
    while True:
        try:
            data = connections[port].recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            log.append(f"tcp {name(error)}")
            del connections[port]
            return
        if not data:
            log.append("tcp end")
            connections[port].ended = True
            return
        log.append(f"tcp {len(data)} bytes")


class Connection(socket.socket):
    ended = False


def read_all():
    while True:
        try:
            s, who = listener.accept()
        except BlockingIOError:
            break
        c = Connection(fileno=s.detach())
        c.setblocking(False)
        connections[who[1]] = c
        log.append(f"accepted {who[0]}")
    for port in list(connections):
        if not connections[port].ended:
            read_connection(port)
    read_datagrams()


def obey(command, port):
    c = connections.get(port)
    if not c:
        log.append("no connection")
        return
    try:
        if command == "close":
            del connections[port]
            c.close()
        elif command == "abort":
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            del connections[port]
            c.close()
        elif command == "shutdown":
            c.shutdown(socket.SHUT_WR)
        elif command == "send":
            c.send(b"x" * 10)
        log.append(command)
    except OSError as error:
        log.append(f"{command} {name(error)}")


print("ready", flush=True)
while True:
    select.select([asked, listener, *datagrams.values()], [], [])
    read_all()
    while True:
        try:
            question, who = asked.recvfrom(65536)
        except BlockingIOError:
            break
        words = question.decode().split()
        read_all()
        if len(words) > 1:
            obey(words[1], int(words[2]))
            read_all()
        asked.sendto("\n".join(words[:1] + log).encode(), who)
        log.clear()
