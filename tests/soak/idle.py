"""Keeps idle connections to redis, and sends a request on each of them at the end.

    idle.py HOST PORT COUNT

Prints "ready" when all are connected; after SIGTERM it sends a request on each one, and ends with
a line of tests/soak: errors_idle connections did not answer.
"""
import signal
import socket
import sys

HELD_BACK = {signal.SIGTERM}


def answers(sock):
    try:
        sock.sendall(b"PING\r\n")
        return sock.recv(100) == b"+PONG\r\n"
    except OSError:
        return False


signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
address = (sys.argv[1], int(sys.argv[2]))
crowd = [socket.create_connection(address, 10) for _ in range(int(sys.argv[3]))]
print("ready", flush=True)
signal.sigwait(HELD_BACK)
print("result requests=0 errors_idle=%d" % sum(not answers(sock) for sock in crowd), flush=True)
