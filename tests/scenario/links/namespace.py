"""namespace.py say NAME: answers over UDP and TCP with its name.

namespace.py ask PATH: creates sockets before, in, and after a visit to the namespace PATH; prints
which server answered each.
"""

import ctypes
import os
import select
import socket
import subprocess
import sys

PEER = ("10.9.0.1", 7000)
libc = ctypes.CDLL(None, use_errno=True)
answers = 0


def say(name):
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    tcp = socket.socket()
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    udp.bind(("0.0.0.0", 7000))
    tcp.bind(("0.0.0.0", 7000))
    tcp.listen()
    print("ready", flush=True)
    while True:
        for sock in select.select([udp, tcp], [], [])[0]:
            if sock is udp:
                _, peer = udp.recvfrom(100)
                udp.sendto(name.encode(), peer)
            else:
                conn, _ = tcp.accept()
                conn.sendall(name.encode())
                conn.close()


def tell(what, sock, text):
    global answers
    print(what, text.decode(), flush=True)
    answers += 1
    sock.close()


def udp_sent(what, sock):
    sock.settimeout(50)
    sock.sendto(b"who", PEER)
    tell(what, sock, sock.recv(100))


def udp_connected(what, sock):
    sock.settimeout(50)
    sock.connect(PEER)
    sock.send(b"who")
    tell(what, sock, sock.recv(100))


def udp_bound(what, sock):
    sock.settimeout(50)
    sock.bind(("10.9.0.2", 0))
    sock.sendto(b"who", PEER)
    tell(what, sock, sock.recv(100))


def tcp_connected(what, sock):
    sock.settimeout(50)
    sock.connect(PEER)
    tell(what, sock, sock.recv(100))


def enter(fd):
    if libc.setns(fd, 0):
        raise OSError(ctypes.get_errno(), "setns")


def datagram():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def ask(path):
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    away = os.open(path, os.O_RDONLY)
    udp_sent("home-first", datagram())
    early = datagram()
    enter(away)
    late = [datagram(), datagram(), datagram(), socket.socket()]
    udp_sent("home-early", early)
    udp_sent("away-there", datagram())
    enter(home)
    udp_sent("away-sent", late[0])
    udp_connected("away-connected", late[1])
    udp_bound("away-bound", late[2])
    tcp_connected("away-tcp", late[3])
    tcp_connected("home-tcp", socket.socket())
    # A program that is executed there inherits a socket from this namespace.
    kept = socket.create_connection(PEER)
    kept.set_inheritable(True)
    program = [sys.executable, __file__, "use", str(kept.fileno())]
    enter(away)
    done = subprocess.run(program, close_fds=False, stdout=subprocess.PIPE, timeout=100, check=True)
    tell("home-inherited", kept, done.stdout.strip())
    print(answers, "answers", flush=True)


def use(fd):
    sock = socket.socket(fileno=fd)
    sock.settimeout(50)
    print(sock.recv(100).decode())


if __name__ == "__main__":
    {"say": say, "ask": ask, "use": lambda fd: use(int(fd))}[sys.argv[1]](sys.argv[2])
