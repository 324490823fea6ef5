"""A program for each connection, as inetd's: ADDRESS PORT. The first word of a line says how
it is executed; the program reads the rest, and all later lines."""
import os
import socket
import subprocess
import sys

listener = socket.create_server((sys.argv[1], int(sys.argv[2])))


def shell(conn):
    """Reads and writes a descriptor that is not its standard input."""
    return "cat <&%d >&%d" % (conn.fileno(), conn.fileno())


def popen_stdio(conn):
    subprocess.Popen(["cat"], stdin=conn, stdout=conn, stderr=subprocess.DEVNULL)


def popen_pass(conn):
    subprocess.Popen(["sh", "-c", shell(conn)], pass_fds=[conn.fileno()])


def popen_prepared(conn):
    subprocess.Popen(["cat"], stdin=conn, stdout=conn, preexec_fn=lambda: None)


def popen_input(conn):
    """It reads from the connection, and writes to a pipe that this process reads."""
    child = subprocess.Popen(["cat"], stdin=conn, stdout=subprocess.PIPE)
    for piece in iter(lambda: child.stdout.read1(65536), b""):
        conn.sendall(piece)
    child.wait()


def spawn(conn):
    fd = conn.fileno()
    moved = [(os.POSIX_SPAWN_DUP2, fd, 0), (os.POSIX_SPAWN_DUP2, fd, 1)]
    os.posix_spawnp("cat", ["cat"], os.environ, file_actions=moved)


def system(conn):
    conn.set_inheritable(True)
    assert os.system(shell(conn)) == 0


def execute(conn):
    if os.fork() == 0:
        os.dup2(conn.fileno(), 0)
        os.dup2(conn.fileno(), 1)
        os.execvp("cat", ["cat"])


ways = {f.__name__: f for f in (popen_stdio, popen_pass, popen_prepared, popen_input, spawn, system, execute)}
while True:
    conn, _ = listener.accept()
    word = b""
    while not word.endswith(b" "):
        word += conn.recv(1)
    ways[word.decode().strip()](conn)
    conn.close()
