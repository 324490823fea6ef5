"""Datagrams to sockets that share a port.

    local_reuse.py serve PORT NAME OPTION [ADDRESS]   says its name; OPTION: addr or port, for SO_REUSE*
    local_reuse.py ask PORT                           prints who answers to each of some ports
    local_reuse.py follow PORT NAME...                one socket asks until each of them has answered
"""
import socket
import sys

HOST = "127.0.0.1"
OPTIONS = {"addr": socket.SO_REUSEADDR, "port": socket.SO_REUSEPORT}


def udp(port=0):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(50)
    if port:
        sock.bind((HOST, port))
    return sock


def serve(port, name, option, addr=HOST):
    sock = udp()
    sock.settimeout(None)
    sock.setsockopt(socket.SOL_SOCKET, OPTIONS[option], 1)
    sock.bind((addr, int(port)))
    print("ready", flush=True)
    while True:
        question, peer = sock.recvfrom(100)
        sock.sendto(question + b" " + name.encode(), peer)


def answer(sock, port, question=0):
    """Each question has a number, because answers to earlier ones may come late."""
    sock.sendto(b"%d" % question, (HOST, int(port)))
    while True:
        number, name = sock.recv(100).decode().split()
        if int(number) == question:
            return name


def ask(port):
    names = []
    for i in range(12):
        sock = udp(6100 + i)
        said = {answer(sock, port) for _ in range(5)}
        names.append("/".join(sorted(said)))
        sock.close()
    print(*names)


def follow(port, *names):
    """A server that has ended does not answer the last one."""
    sock = udp()
    sock.settimeout(0.2)
    question = 0
    for i, name in enumerate(names):
        said = None
        while said != name:
            question += 1
            try:
                said = answer(sock, port, question)
            except (TimeoutError, ConnectionRefusedError):
                pass
        print("now" if i else "ready", name, flush=True)


{"serve": serve, "ask": ask, "follow": follow}[sys.argv[1]](*sys.argv[2:])
