"""A connection whose forked child calls nothing for two seconds, and then answers.

    late.py serve PORT HOW [PROGRAM]    accepts one, and forks; HOW says what the parent does then: exits,
                              closes, stays; leaves: exits, after the child has executed the program
    late.py ask HOST PORT     sends a request, prints the answer
"""
import os
import signal
import socket
import sys
import time

PAUSE = 2  # seconds: longer than an owner that exits offers a connection


def serve(port, how, program):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", port))
    listener.listen(5)
    print("ready", flush=True)
    conn, _ = listener.accept()
    assert conn.recv(100) == b"request"
    child = os.fork()
    if child == 0:
        if how == "leaves":
            conn.set_inheritable(True)
            os.execv(program, [program, str(conn.fileno())])
        time.sleep(PAUSE)
        conn.sendall(b"answer")
        os._exit(0)
    while how == "leaves" and os.readlink(f"/proc/{child}/exe") != os.path.realpath(program):
        time.sleep(0.001)
    if how in ("exits", "leaves"):
        os._exit(0)
    if how == "closes":
        conn.close()
    signal.pause()


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]), sys.argv[3], sys.argv[-1])
else:
    with socket.create_connection((sys.argv[2], int(sys.argv[3])), 30) as conn:
        conn.sendall(b"request")
        print(conn.recv(100).decode(), flush=True)
