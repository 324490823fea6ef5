"""What a program, or its peer, sees of a parameter: effects_test.sh runs each case with and without it.

effects.py CASE [ARGUMENT...] prints one word.  effects.py peer serves the cases, in the kernel.
"""
import fcntl
import os
import pty
import resource
import select
import socket
import struct
import sys
import threading
import time

HERE, PEER = "10.9.0.1", "10.9.0.2"
ECHO, ACKS, FLOOD, INBOX = 9000, 9001, 9002, 9003
SIOCOUTQ = 0x5411
FAST, SHORT = 0.5, 0.02  # seconds: less than what a limit, or a delay, takes


# ---- the peer ------------------------------------------------------------------------------


def echo(conn):
    while data := conn.recv(1000):
        conn.send(data)


def unacknowledged(conn):
    return struct.unpack("i", fcntl.ioctl(conn, SIOCOUTQ, b"\0" * 4))[0]


def acks(conn):
    """The shortest time in which a byte is acknowledged, in ms, once the other end delays that."""
    times = []
    for _ in range(40):
        conn.send(conn.recv(1))
    for _ in range(50):
        while unacknowledged(conn):
            pass
        begin = time.monotonic()
        conn.send(b"x")
        while unacknowledged(conn):
            pass
        times.append(time.monotonic() - begin)
        if times[-1] < SHORT:
            break
    conn.send(b"=%d\n" % (min(times) * 1000))


def flood(conn):
    """Sends as many datagrams as it is told to, and says when it is done."""
    n = int(conn.recv(100))
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(n):
        out.sendto(b"x" * 1000, (HERE, INBOX))
        time.sleep(0.0002)
    conn.send(b"done")


def serve(port, what):
    listener = socket.create_server((PEER, port))
    while True:
        conn, _ = listener.accept()
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=what, args=(conn,), daemon=True).start()


def case_peer():
    for port, what in (ECHO, echo), (ACKS, acks), (FLOOD, flood):
        threading.Thread(target=serve, args=(port, what), daemon=True).start()
    for port in ECHO, ACKS, FLOOD:
        while socket.socket().connect_ex((PEER, port)):
            pass
    print("ready", flush=True)
    threading.Event().wait()


# ---- with the library ------------------------------------------------------------------------


def connected(port=ECHO):
    return socket.create_connection((PEER, port))


def case_nodelay():
    return connected().getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def case_congestion():
    return connected().getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).strip(b"\0").decode()


def case_segment():
    conn = connected()
    conn.send(b"x")
    conn.recv(1)
    return conn.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)


def case_acks():
    conn, text = connected(ACKS), b""
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(40):
        conn.send(b"x")
        conn.recv(1)
    while not text.endswith(b"\n"):
        text += conn.recv(100)
    return text.split(b"=")[1].decode().strip()


def case_paced(limit):
    """
    How long 100000 bytes take there and back, in ms; SO_MAX_PACING_RATE as a number or a struct.
    Without a limit the shortest of up to fifty times: on a busy machine some are long.
    """
    conn, times = connected(), []
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1000000)
    if limit == "struct":  # vma_rate_limit_t: kbit/s, burst, size of a packet
        conn.setsockopt(socket.SOL_SOCKET, 47, struct.pack("IIHxx", 800, 0, 0))
    for _ in range(1 if limit == "struct" else 50):
        begin, got = time.monotonic(), 0
        threading.Thread(target=conn.sendall, args=(b"x" * 100000,)).start()
        while got < 100000:
            got += len(conn.recv(100000))
        times.append(time.monotonic() - begin)
        if times[-1] < FAST:
            break
    return int(min(times) * 1000)


def case_paced_datagrams(limit):
    """How long 100 datagrams of 1028 bytes take to leave but for the last ones, in ms."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    value = struct.pack("IIHxx", 800, 3000, 1500) if limit == "struct" else struct.pack("Q", 100000)
    sock.setsockopt(socket.SOL_SOCKET, 47, value)
    begin = time.monotonic()
    for _ in range(100):
        sock.sendto(b"x" * 1000, (PEER, INBOX))
    return int((time.monotonic() - begin) * 1000)


def case_loopback():
    """Is what a socket sends to a group received on its own host?"""
    group = "239.1.1.1"
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind((group, INBOX))
    receiver.setsockopt(
        socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(HERE)
    )
    receiver.settimeout(3)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind((HERE, 0))
    sender.sendto(b"x", (group, INBOX))
    try:
        receiver.recv(10)
    except TimeoutError:
        return "no"
    return "yes"


def case_queued():
    """How many of 200 datagrams a socket with the smallest SO_RCVBUF keeps."""
    sock, n = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    sock.bind((HERE, INBOX))
    ask = connected(FLOOD)
    ask.send(b"200")
    ask.recv(10)
    sock.settimeout(3)
    try:
        while n < 200:
            sock.recv(2000)
            n += 1
    except TimeoutError:
        pass
    return n


def queued_by_kernel(port):
    """Are there bytes in the kernel's UDP socket?"""
    with open("/proc/self/net/udp") as table:
        lines = [line.split() for line in table]
    return any(line[1].endswith(":%04X" % port) and not line[4].endswith(":00000000") for line in lines)


def case_polls():
    """Receives until the kernel's socket is looked at, at most 5000 times."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("0.0.0.0", INBOX))
    sock.setblocking(False)
    out, counts = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), []
    for _ in range(5):
        out.sendto(b"x", ("127.0.0.1", INBOX))
        while not queued_by_kernel(INBOX):
            pass
        for n in range(1, 5001):
            try:
                sock.recv(10)
                break
            except BlockingIOError:
                pass
        counts.append(n)
    return max(counts)


def sleeps():
    """How often this thread has slept; sched_yield() does not count."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def case_recv():
    """Does a receive sleep that waits for a second?"""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((HERE, INBOX))
    # Not settimeout(), with which Python calls poll() first.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 1, 0))
    before = sleeps()
    try:
        sock.recv(10)
    except BlockingIOError:
        return "sleeps" if sleeps() > before else "polls"


def case_select():
    """Does a select() sleep that waits for a second?"""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((HERE, INBOX))
    before = sleeps()
    select.select([sock], [], [], 1)
    return "sleeps" if sleeps() > before else "polls"


def case_pipe(limit):
    """How long a poll() takes to see a pipe that is written to while it polls, in ms, at most limit."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((HERE, INBOX))
    ours, theirs = os.pipe()
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    poll.register(ours, select.POLLIN)
    threading.Timer(0.1, os.write, (theirs, b"x")).start()
    begin = time.monotonic()
    poll.poll(int(limit))
    return int((time.monotonic() - begin) * 1000)


def case_both():
    """Of 100 calls of poll() with a socket that is readable, how many see a readable pipe, too."""
    conn = connected()
    conn.send(b"x")
    select.select([conn], [], [])
    ours, theirs = os.pipe()
    os.write(theirs, b"x")
    poll = select.poll()
    poll.register(conn, select.POLLIN)
    poll.register(ours, select.POLLIN)
    return sum(len(poll.poll(1000)) == 2 for _ in range(100))


def case_affinity():
    """The processors of the other threads."""
    conn = connected()
    lists = set()
    for tid in os.listdir("/proc/self/task"):
        if int(tid) != os.getpid():
            lists.add(",".join(map(str, sorted(os.sched_getaffinity(int(tid))))))
    conn.close()
    return " ".join(sorted(lists))


def case_pages():
    """The size of the pages that hold the frames, in kB."""
    conn = connected()
    size, here = 0, False
    with open("/proc/self/smaps") as smaps:
        for line in smaps:
            if "-" in line.split()[0]:
                here = "memfd:vma-umem" in line
            elif here and line.startswith("KernelPageSize:"):
                size = int(line.split()[1])
    conn.close()
    return size


def case_umem():
    """The size of the memory of frames, in MB."""
    conn = connected()
    size = 0
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "memfd:vma-umem" in line:
                first, end = line.split()[0].split("-")
                size += int(end, 16) - int(first, 16)
    conn.close()
    return size >> 20


def case_queues():
    """The entries of the RX and TX ring of an AF_XDP socket, by the size of their mappings."""
    conn, entries = connected(), {}
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end, offset = line.replace("-", " ", 1).split()[0:2] + [line.split()[2]]
            if "socket:" in line:
                size = int(end, 16) - int(begin, 16)
                entries[int(offset, 16)] = 1 << ((size - 4096) // 16).bit_length() - 1
    conn.close()
    return "%d/%d" % (entries[0], entries[0x80000000])


def case_hold():
    """Uses the interface, says so and stays."""
    conn = connected()
    print("ready", flush=True)
    while True:
        conn.send(b"x")
        conn.recv(1)
        time.sleep(0.1)


def case_listen():
    listener = socket.create_server(("0.0.0.0", INBOX))
    print("ready", flush=True)
    kept = []
    while True:
        kept.append(listener.accept())


def case_connect(tries, *addresses):
    """
    How long it takes to connect to all addresses, one after the other, in ms.  More tries: the shortest
    time of up to so many.
    """
    times = []
    for _ in range(int(tries)):
        begin = time.monotonic()
        for address in addresses:
            socket.create_connection((address, INBOX))
        times.append(time.monotonic() - begin)
        if times[-1] < FAST:
            break
    return int(min(times) * 1000)


def case_crash():
    import ctypes

    ctypes.string_at(8)


def case_terminal():
    """What a program writes to a terminal as its stderr."""
    text = b""

    def read(fd):
        nonlocal text
        data = os.read(fd, 1000)
        text += data
        return data

    with open(os.devnull, "w") as null:
        out = os.dup(1)
        os.dup2(null.fileno(), 1)
        pty.spawn(["true"], read)
        os.dup2(out, 1)
    return "colour" if b"\033[" in text else "plain" if b"VMA" in text else "nothing"


if __name__ == "__main__":
    word = globals()["case_" + sys.argv[1]](*sys.argv[2:])
    if word is not None:
        print("=%s" % word)
    sys.stdout.flush()
    os._exit(0)
