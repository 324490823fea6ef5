"""A master that accepts, and workers that serve what it sends them: ADDRESS PORT, for the
server, or client ADDRESS PORT N. Ports follow one another, one for each way of sending."""
import multiprocessing
import os
import signal
import socket
import sys
import threading
from multiprocessing import reduction

WORKERS = 3


def echo(conn):
    """Echoes until the end of the stream."""
    with conn:
        for piece in iter(lambda: conn.recv(65536), b""):
            conn.sendall(piece)


def take_pickled(pipe):
    """Sent as the argument of a task: the sender keeps a copy until it is received."""
    while True:
        echo(pipe.recv())


def take_handle(pipe):
    while True:
        echo(socket.socket(fileno=reduction.recv_handle(pipe)))


def take_fds(pipe):
    """Each arrives twice."""
    way = socket.socket(fileno=os.dup(pipe.fileno()))
    while True:
        one, other = socket.recv_fds(way, 1, 2)[1]
        os.close(one)
        echo(socket.socket(fileno=other))


def send_pickled(pipe, conn):
    pipe.send(conn)


def send_handle(pipe, conn):
    reduction.send_handle(pipe, conn.fileno(), None)


def send_fds(pipe, conn):
    with socket.socket(fileno=os.dup(pipe.fileno())) as way:
        socket.send_fds(way, [b"x"], [conn.fileno(), conn.fileno()])


WAYS = [
    ("spawn", send_pickled, take_pickled),
    ("fork", send_pickled, take_pickled),
    ("spawn", send_handle, take_handle),
    ("fork", send_handle, take_handle),
    ("spawn", send_fds, take_fds),
]


def master(ready, address, port, start, send, take):
    context = multiprocessing.get_context(start)
    pipes = []
    for _ in range(WORKERS):
        ours, theirs = context.Pipe()
        context.Process(target=take, args=(theirs,), daemon=True).start()
        pipes.append(ours)
    with socket.create_server((address, port), backlog=64) as listener:
        ready.set()
        turn = 0
        while True:
            with listener.accept()[0] as conn:
                send(pipes[turn % WORKERS], conn)
            turn += 1


def leave(*_):
    """Ends all processes."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)


def serve(address, port):
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, leave)
    masters = []
    context = multiprocessing.get_context("spawn")
    # One after the other: twenty interpreters that start at once leave no processor to the process that shares its
    # interface with them.
    for i, way in enumerate(WAYS):
        ready = context.Event()
        masters.append(context.Process(target=master, args=(ready, address, port + i, *way)))
        masters[-1].start()
        ready.wait(30)
    for process in masters:
        process.join()


def visit(address, port, sizes, wrong):
    for size in sizes:
        sent = os.urandom(size)
        with socket.create_connection((address, port)) as conn:
            conn.settimeout(50)
            writer = threading.Thread(target=lambda: (conn.sendall(sent), conn.shutdown(socket.SHUT_WR)))
            writer.start()
            try:
                back = b"".join(iter(lambda: conn.recv(65536), b""))
            except OSError as error:
                back = str(error).encode()
            writer.join()
        if back != sent:
            wrong.append("%d bytes, %d came back: %r" % (len(sent), len(back), back[:50]))


def client(address, port, n):
    wrong = []
    threads = [
        threading.Thread(target=visit, args=(address, port, [1 + i * 997 % 60000 for i in range(t, n, 4)], wrong))
        for t in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("\n".join(wrong[:5]))
    sys.exit(len(wrong) > 0)


if __name__ == "__main__":
    if sys.argv[1] == "client":
        client(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    serve(sys.argv[1], int(sys.argv[2]))
