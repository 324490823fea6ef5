"""TCP and UDP servers of both address families at one port.

    local_family.py serve PORT NAME SOCKET...   says its name; SOCKET: PROTO,OPTION...,ADDRESS
                                                OPTION: only (IPV6_V6ONLY), addr (SO_REUSEADDR)
    local_family.py ask PORT PROTO,ADDRESS...   prints who answers, and by which names
"""
import selectors
import socket
import sys

KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


def make(proto, addr):
    return socket.socket(socket.AF_INET6 if ":" in addr else socket.AF_INET, KINDS[proto])


def listen(port, text):
    proto, *options, addr = text.split(",")
    sock = make(proto, addr)
    if ":" in addr:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, "only" in options)
    if "addr" in options:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((addr, int(port)))
    if proto == "tcp":
        sock.listen()
    return sock


def answer(sock, name):
    if sock.type == socket.SOCK_DGRAM:
        _, peer = sock.recvfrom(100)
        sock.sendto(f"{name} {peer[0]}".encode(), peer)
        return
    conn, peer = sock.accept()
    with conn:
        assert conn.getpeername() == peer
        conn.recv(100)
        conn.sendall(f"{name} {peer[0]} at {conn.getsockname()[0]}".encode())
        conn.recv(100)


def serve(port, name, *texts):
    selector = selectors.DefaultSelector()
    for text in texts:
        selector.register(listen(port, text), selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in selector.select():
            answer(key.fileobj, name)


def ask(port, *texts):
    for text in texts:
        proto, addr = text.split(",")
        with make(proto, addr) as sock:
            sock.settimeout(50)
            if proto == "tcp":
                sock.connect((addr, int(port)))
                assert sock.getpeername()[:2] == (addr, int(port))
                sock.sendall(b"?")
            else:
                sock.sendto(b"?", (addr, int(port)))
            said, peer = sock.recvfrom(100)
            print(text, said.decode(), "to", sock.getsockname()[0] if proto == "tcp" else peer[0])


{"serve": serve, "ask": ask}[sys.argv[1]](*sys.argv[2:])
