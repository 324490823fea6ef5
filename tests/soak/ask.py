"""Sends requests to a server in a loop, with a new socket each time.

    ask.py echo|redis|dns HOST PORT SECONDS

echo: a TCP connection for each request; the server echoes, then closes.
redis: a TCP connection for each request, which the server closes first.
dns: a UDP socket for each question; the answer is the address that loads/dns.sh configures.

Without the pause after an error, the number of errors would depend on the time that a refusal takes:
the kernel's server leaves connections in TIME-WAIT, and a SYN that meets one is answered after 8 ms.

Ends with a line of tests/soak: requests, p99_us, max_us, and the errors by kind.
"""
import os
import socket
import struct
import sys
import time

PATIENCE = 2.0  # seconds; a request that takes longer is an error
PAUSE = 0.005  # pause after an error, as clients do: the number of errors tells how long no server answered
ANSWER = bytes([10, 1, 1, 1])


class Wrong(Exception):
    """The answer is not the one that the server was configured to give."""


def until_end(sock):
    answer = b""
    while True:
        data = sock.recv(1000)
        if not data:
            return answer
        answer += data


def echo(address, number):
    text = b"request %d\n" % number
    with socket.create_connection(address, PATIENCE) as sock:
        sock.sendall(text)
        sock.shutdown(socket.SHUT_WR)
        if until_end(sock) != text:
            raise Wrong


def redis(address, number):
    with socket.create_connection(address, PATIENCE) as sock:
        sock.sendall(b"ECHO %d\r\nQUIT\r\n" % number)
        answer = until_end(sock)
    if answer.split()[1:] != [b"%d" % number, b"+OK"]:
        raise ConnectionResetError if not answer else Wrong


def dns(address, number):
    name = b"n%d" % number
    query = (struct.pack("!HHHHHH", number & 0xffff, 0x0100, 1, 0, 0, 0) +
             bytes([len(name)]) + name + b"\x04test\x00" + struct.pack("!HH", 1, 1))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(address)
        sock.send(query)
        answer = sock.recv(1000)
    if answer[:2] != query[:2] or not answer.endswith(ANSWER):
        raise Wrong


def kind_of(error):
    if isinstance(error, Wrong):
        return "wrong"
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ConnectionRefusedError):
        return "connect"
    return "read"


def main():
    request = {"echo": echo, "redis": redis, "dns": dns}[sys.argv[1]]
    address = (sys.argv[2], int(sys.argv[3]))
    end = time.monotonic() + float(sys.argv[4])
    times, errors, number = [], {}, os.getpid() << 20
    while time.monotonic() < end:
        number += 1
        began = time.monotonic()
        try:
            request(address, number)
            times.append(time.monotonic() - began)
        except (OSError, Wrong) as error:
            kind = kind_of(error)
            errors[kind] = errors.get(kind, 0) + 1
            time.sleep(PAUSE)
    times.sort()
    print("result requests=%d" % len(times), end="")
    if times:
        print(" p99_us=%d max_us=%d" % (times[len(times) * 99 // 100] * 1e6, times[-1] * 1e6), end="")
    for kind, count in errors.items():
        print(" errors_%s=%d" % (kind, count), end="")
    print()


main()
