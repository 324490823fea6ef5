"""Connections to a listener that are older than it, or that begin while its interface is opened.

EARLY_FAMILY=6 in the environment: over IPv6.

early.py serve PORT		echoes until "bye", a thread for each connection; says "ready" when it listens
early.py leave PORT		accepts one connection, releases the port, says "ready", echoes
early.py talk ADDRESS PORT SOURCE	connects from that port (0: any), says "ready"; then sends each line of its input, and
				says what comes back
early.py stray ADDRESS PORT	sends a segment of no connection from port 40009; prints "reset" when that is
				the answer
early.py lock FILE		locks all of it, says "locked"; says "released" when it is, after a SIGTERM
early.py marked PID		is a listener of the process in the map of those at whose port the
				kernel may have connections?
"""
import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import sys
import threading

PIDFD_GETFD, BPF = 438, 321
HIDDEN = 512  # the library's descriptors begin here
GET_NEXT_KEY = 4
FAMILY = socket.AF_INET6 if os.environ.get("EARLY_FAMILY") == "6" else socket.AF_INET
KERNEL = ("map_type:1", "key_size:8", "value_size:4", "max_entries:4096")


def echo(connection):
    with connection:
        while (data := connection.recv(1000)) not in (b"", b"bye\n"):
            connection.sendall(data)


def listen(port):
    listener = socket.socket(FAMILY)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", port))
    listener.listen(16)
    return listener


def leave(port):
    with listen(port) as listener:
        connection = listener.accept()[0]
    print("ready", flush=True)
    echo(connection)


def serve(port):
    listener = listen(port)
    print("ready", flush=True)
    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],)).start()


def talk(address, port, source):
    with socket.create_connection((address, port), 30, ("", source)) as connection:
        print("ready", flush=True)
        for line in sys.stdin:
            connection.sendall(line.encode())
            print(connection.recv(1000).decode().strip(), flush=True)


def stray(address, port):
    with socket.socket(FAMILY, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
        raw.connect((address, 0))
        ends = b"".join(socket.inet_pton(FAMILY, a) for a in (raw.getsockname()[0], address))
        segment = struct.pack("!HHIIBBHHH", 40009, port, 1, 2, 5 << 4, 0x10, 0, 0, 0)
        summed = ends + struct.pack("!HH", socket.IPPROTO_TCP, 20) + segment
        total = sum(struct.unpack("!%dH" % (len(summed) // 2), summed))
        checksum = ~(total % 0xffff) & 0xffff
        raw.settimeout(10)
        raw.send(segment[:16] + struct.pack("!H", checksum) + segment[18:])
        while True:
            at = 20 if FAMILY == socket.AF_INET else 0  # with IPv6 no header is received
            _, to_port, _, _, _, flags = struct.unpack("!HHIIBB", raw.recv(1000)[at:at + 14])
            if to_port == 40009:
                print("reset" if flags & 4 else "flags %#x" % flags)
                return


def facts_of(fd):
    with open("/proc/self/fdinfo/%d" % fd, encoding="ascii") as text:
        return ["".join(line.split()) for line in text]


def is_empty(libc, fd):
    key = ctypes.create_string_buffer(8)
    attr = struct.pack("=IxxxxQQ", fd, 0, ctypes.addressof(key)).ljust(144, b"\0")
    if libc.syscall(BPF, GET_NEXT_KEY, attr, len(attr)) == 0:
        return False
    assert ctypes.get_errno() == errno.ENOENT, os.strerror(ctypes.get_errno())
    return True


def marked(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = os.pidfd_open(pid)
    theirs = [int(fd) for fd in os.listdir("/proc/%d/fd" % pid) if int(fd) >= HIDDEN]
    fds = [libc.syscall(PIDFD_GETFD, pidfd, fd, 0) for fd in theirs]
    maps = [fd for fd in fds if fd >= 0 and all(fact in facts_of(fd) for fact in KERNEL)]
    sys.exit(all(is_empty(libc, fd) for fd in maps))


def lock(path):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    with open(path, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        print("locked", flush=True)
        signal.sigwait([signal.SIGTERM])
    print("released")


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
elif sys.argv[1] == "leave":
    leave(int(sys.argv[2]))
elif sys.argv[1] == "talk":
    talk(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
elif sys.argv[1] == "stray":
    stray(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == "lock":
    lock(sys.argv[2])
else:
    marked(int(sys.argv[2]))
