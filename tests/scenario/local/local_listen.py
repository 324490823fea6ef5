"""Listeners that share a port by SO_REUSEPORT.

    local_listen.py serve PORT NAME [WHEN [ADDRESS]]   accepts, and says its name; WHEN it sets SO_REUSEPORT:
                                 first (before bind), later (after listen; it shares the port from then on),
                                 forks (first, and a child accepts, too), filtered (first; all connections are
                                 for the first listener of the port, by BPF)
    local_listen.py ask PORT [ADDRESS]                 prints who answers to each of some ports
"""
import ctypes
import os
import socket
import struct
import sys

HOST = "127.0.0.1"
CLIENTS = 16
SO_ATTACH_REUSEPORT_CBPF = 51
RETURN_0 = struct.pack("HBBI", 0x06, 0, 0, 0)  # BPF_RET | BPF_K


def filter_all(sock):
    code = ctypes.create_string_buffer(RETURN_0)
    program = struct.pack("HxxxxxxP", 1, ctypes.addressof(code))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, program)


def serve(port, name, when="first", addr=HOST):
    sock = socket.socket()
    if when != "later":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((addr, int(port)))
    sock.listen(100)
    if when == "later":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if when == "filtered":
        filter_all(sock)
    if when != "forks" or os.fork():
        print("ready", flush=True)
    while True:
        conn, _ = sock.accept()
        with conn:
            conn.sendall(name.encode())


def ask(port, addr=HOST):
    names = []
    for i in range(CLIENTS):
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.settimeout(50)
            if addr == HOST:
                sock.bind((HOST, 6200 + i))
            sock.connect((addr, int(port)))
            names.append(sock.makefile().read())
    print(*names)


{"serve": serve, "ask": ask}[sys.argv[1]](*sys.argv[2:])
