# SPDX-License-Identifier: BSD-2-Clause
"""
Threads of a program that is tuned for one:

    second.py CASE IP PORT

talks to an echo server of UDP and TCP. CASE: alone, the main thread only; idle, beside a thread
without sockets; worker, another thread comes while the main one is busy; blocked, while the main
one waits in recv(); epoll, in epoll_wait(); forked, one thread, and a child of fork. Each answer
is compared; prints "=" and the number of answers.
"""

import os
import select
import socket
import sys
import threading

PATIENCE = 50  # seconds
ROUNDS = 300

server = (sys.argv[2], int(sys.argv[3]))
answers = []  # one for each echo that came back whole
wrong = []


def client(kind):
    sock = socket.socket(socket.AF_INET, kind)
    sock.settimeout(PATIENCE)
    sock.connect(server)
    return sock


def echo(sock, number):
    """Sends a message that names its sender, and checks the answer."""
    text = f"{threading.get_ident()} {number} ".encode().ljust(64, b".")
    sock.sendall(text)
    answer = b""
    while len(answer) < len(text):
        part = sock.recv(len(text) - len(answer))
        if not part:
            break
        answer += part
    (answers if answer == text else wrong).append(number)


def talk(rounds):
    socks = [client(socket.SOCK_DGRAM), client(socket.SOCK_STREAM)]
    for number in range(rounds):
        for sock in socks:
            echo(sock, number)
    for sock in socks:
        sock.close()


def beside(main, *others):
    """Runs main in this thread, the others in threads of their own; all must end."""
    threads = [threading.Thread(target=other, daemon=True) for other in others]
    for thread in threads:
        thread.start()
    main()
    for thread in threads:
        thread.join(PATIENCE)
        if thread.is_alive():
            wrong.append("a thread hangs")


def alone():
    talk(ROUNDS)


def idle():
    done = threading.Event()
    threading.Thread(target=done.wait, daemon=True).start()
    talk(ROUNDS)
    done.set()


def worker():
    started = threading.Event()

    def main():
        socks = [client(socket.SOCK_DGRAM), client(socket.SOCK_STREAM)]
        for number in range(ROUNDS):
            for sock in socks:
                echo(sock, number)
            if number == ROUNDS // 10:
                started.set()

    def come():
        started.wait(PATIENCE)
        talk(ROUNDS)

    beside(main, come, come)


def waiting(wait):
    """The main thread waits for an answer that the second thread asks for."""
    sock = client(socket.SOCK_DGRAM)
    echo(sock, 0)

    def come():
        talk(ROUNDS // 10)
        sock.send(b"wake up")

    beside(lambda: (answers if wait(sock) == b"wake up" else wrong).append(0), come)


def blocked():
    def wait(sock):
        sock.settimeout(None)  # with a timeout, Python itself waits in poll()
        return sock.recv(64)

    waiting(wait)


def epoll():
    def wait(sock):
        with select.epoll() as watched:
            watched.register(sock, select.EPOLLIN)
            return sock.recv(64) if watched.poll(PATIENCE) else b""

    waiting(wait)


def forked():
    talk(10)
    child = os.fork()
    if child == 0:
        talk(10)
        os._exit(len(wrong))
    if os.waitpid(child, 0)[1]:
        wrong.append("in the child")
    talk(10)


{case.__name__: case for case in (alone, idle, worker, blocked, epoll, forked)}[sys.argv[1]]()
for what in wrong[:5]:
    print("wrong:", what)
print(f"={len(answers)}")
