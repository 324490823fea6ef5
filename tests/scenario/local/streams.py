"""What the scripts of tests in this directory do with connections on one host."""
import socket

HOST = "127.0.0.1"
LOTS = 100000


def connect(port):
    return socket.create_connection((HOST, port))


def accept(listener):
    return listener.accept()[0]


def line(sock):
    text = b""
    while not text.endswith(b"\n"):
        more = sock.recv(1)
        if not more:
            break
        text += more
    return text


def read_all(sock, n):
    text = b""
    while len(text) < n:
        more = sock.recv(n - len(text))
        if not more:
            break
        text += more
    return text


def numbered(n):
    return b"".join(b"%07d " % i for i in range(n // 8))


def echo_lines(sock):
    while text := line(sock):
        sock.sendall(text)


def echoes(sock, n):
    right = 0
    for i in range(n):
        sock.sendall(b"%06d\n" % i)
        right += line(sock) == b"%06d\n" % i
    return right


def until_end(sock):
    """What arrives, and how it ends."""
    text = b""
    try:
        while more := sock.recv(65536):
            text += more
    except ConnectionResetError:
        return text, "reset"
    return text, "end"
