# SPDX-License-Identifier: BSD-2-Clause
"""Shared by the rows of address_test.sh and link_events_test.sh.

HERE may have the library; THERE uses the kernel, and has an echo server.
"""
import errno
import os
import select
import socket
import subprocess

HERE, THERE = "10.9.0.1", "10.9.0.2"
TCP_USER_TIMEOUT = 18

# Started before sockets exist, so that its commands inherit none of them.
shell = subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                         env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"})


def run(command):
    """A shell command, without the library; it must succeed."""
    shell.stdin.write("{ " + command + "; } >&2; echo done $?\n")
    shell.stdin.flush()
    assert shell.stdout.readline() == "done 0\n", command


def name(fn, *args):
    """The result of fn, or the name of its error."""
    try:
        return fn(*args)
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))


def connection(port):
    """A connection to the echo server, which has answered; it waits at most 50 s."""
    s = socket.create_connection((THERE, port), 50)
    s.sendall(b"hello")
    assert s.recv(100) == b"hello"
    return s


def row_echo(port):
    """Echoes in both protocols, forever; prints "ready"."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("", port))
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", port))
    listener.listen(200)
    print("ready", flush=True)
    socks = [udp, listener]
    while True:
        for s in select.select(socks, [], [])[0]:
            try:
                if s is udp:
                    data, addr = udp.recvfrom(65536)
                    udp.sendto(data, addr)
                    continue
                if s is listener:
                    socks.append(listener.accept()[0])
                    continue
                data = s.recv(65536)
                if data:
                    s.sendall(data)
            except OSError:
                data = b""
            if s is not udp and not data:
                socks.remove(s)
                s.close()
