"""Connections on one host whose process executes a program.

    local_exec.py serve PORT WORD    accepts, and does what the word says
    local_exec.py image WORD ARG...  the program that it executes
    local_exec.py client PORT WORD   prints what it sees

Words: see the functions serve_WORD, image_WORD and client_WORD.
"""
import errno
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from streams import HOST, LOTS, accept, connect, echo_lines, echoes, line, numbered, read_all, until_end


def become(word, *args, env=None):
    """Executes the image of this word; sockets stay open."""
    argv = [sys.executable, __file__, "image", word]
    for arg in args:
        if isinstance(arg, socket.socket):
            arg.set_inheritable(True)
            arg = arg.fileno()
        argv.append(str(arg))
    os.execve(sys.executable, argv, os.environ if env is None else env)


def of(fd):
    return socket.socket(fileno=int(fd))


def fails_late(word, *socks):
    """An exec that the library prepares, and that the kernel refuses."""
    try:
        become(word, *socks, "x" * 200000)
    except OSError as e:
        return e.errno == errno.E2BIG
    return False


# unread: bytes that nobody has read stay in order, in both directions, and so does the number.


def serve_unread(listener):
    sock = accept(listener)
    read_all(sock, LOTS // 2)
    sock.sendall(numbered(LOTS))
    become("unread", sock, sock.fileno(), os.getpid())


def image_unread(fd, same, pid):
    sock = of(fd)
    whole = read_all(sock, LOTS // 2) == numbered(LOTS)[LOTS // 2 :]
    addresses = sock.getsockname()[0] == sock.getpeername()[0] == HOST
    hidden = not any("INHERITED" in name for name in os.environ)
    sock.sendall(b"%d %d %d %d\n" % (whole, addresses, fd == same, hidden and int(pid) == os.getpid()))
    echo_lines(sock)


def client_unread(port):
    sock = connect(port)
    sock.sendall(numbered(LOTS))
    print(read_all(sock, LOTS) == numbered(LOTS), line(sock).decode().strip(), echoes(sock, 100))
    sock.shutdown(socket.SHUT_WR)
    print(sock.recv(1))


# chain: one image after the other; none keeps more than the last one.


def serve_chain(listener):
    become("chain", accept(listener), 20)


def image_chain(fd, n):
    sock = of(fd)
    count = len(os.listdir("/proc/self/fd"))
    text = line(sock)
    sock.sendall(b"%d %s" % (count, text))
    if text and int(n):
        become("chain", sock, int(n) - 1)


def client_chain(port):
    sock = connect(port)
    counts = []
    for i in range(21):
        sock.sendall(b"%d\n" % i)
        count, text = line(sock).split()
        assert int(text) == i
        counts.append(int(count))
    print(len(counts), counts[1] == counts[-1], until_end(sock))


# both: the client executes a program at the same time.


def serve_both(listener):
    sock = accept(listener)
    line(sock)
    sock.sendall(b"go\n")
    become("both", sock)


def image_both(fd):
    echo_lines(of(fd))


def client_both(port):
    sock = connect(port)
    sock.sendall(b"go\n")
    line(sock)
    become("both_client", sock)


def image_both_client(fd):
    print(echoes(of(fd), 100))


# itself: both ends are in one process.


def client_itself(port):
    listener = socket.create_server((HOST, port + 1000))
    one = socket.create_connection((HOST, port + 1000))
    other = accept(listener)
    other.sendall(b"unread\n")
    become("itself", one, other)


def image_itself(a, b):
    one, other = of(a), of(b)
    text = line(one)
    thread = threading.Thread(target=echo_lines, args=(other,))
    thread.start()
    print(text, echoes(one, 100))
    one.close()
    thread.join()


# copies: two descriptors of one connection, of which the first is not inherited.


def serve_copies(listener):
    sock = accept(listener)
    become("copies", sock.dup(), sock.dup())


def image_copies(a, b):
    one, other = of(a), of(b)
    echo = line(one)
    one.close()
    other.sendall(echo)
    echo_lines(other)


def client_copies(port):
    print(echoes(connect(port), 10))


# closes: what exec closes ends as by close().


def serve_closes(listener):
    kept, closed, unread = accept(listener), accept(listener), accept(listener)
    line(closed)
    closed.sendall(b"written")
    unread.sendall(b"written")
    select.select([unread], [], [])
    become("closes", kept)


def image_closes(fd):
    echo_lines(of(fd))


def client_closes(port):
    kept, closed, unread = connect(port), connect(port), connect(port)
    unread.sendall(b"not read\n")
    closed.sendall(b"read\n")
    print(until_end(closed), until_end(unread), echoes(kept, 10))
    try:
        closed.send(b"x")
        closed.send(b"x")
    except BrokenPipeError:
        print("broken")


# fails: an exec that fails leaves all as it was, for other threads, too.


def serve_fails(listener):
    sock, closed, report = [accept(listener) for _ in range(3)]
    threads = [threading.Thread(target=echo_lines, args=(s,)) for s in (sock, closed)]
    for thread in threads:
        thread.start()
    failed = all(fails_late("fails", sock) for _ in range(5))
    report.sendall(b"%d\n" % failed)
    for thread in threads:
        thread.join()
    listener.close()
    select.select([], [], [])


def client_fails(port):
    sock, closed, report = [connect(port) for _ in range(3)]
    sock.sendall(numbered(80) + b"\n")
    said = line(report), line(sock) == numbered(80) + b"\n", echoes(sock, 10)
    sock.close()
    closed.sendall(b"to the thread\n")
    print(*said, line(closed), echoes(closed, 10))
    # Its process is killed: exec has not closed it.
    os.kill(int(sys.argv[4]), signal.SIGKILL)
    print(until_end(closed))


# plain: a program without the library.


def plain(*argv):
    """Executes a program without the library."""
    os.execve(argv[0], argv, {"A": "1"})


def serve_plain(listener, change=lambda: None):
    signal.signal(signal.SIGWINCH, lambda *_: None)
    subprocess.Popen(["/bin/sh", "-c", f"while kill -WINCH {os.getpid()}; do :; done 2> /dev/null"])
    sock, closed = accept(listener), accept(listener)
    epoll = select.epoll()
    epoll.register(sock, select.EPOLLIN)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    sock.sendall(b"written")
    closed.sendall(b"written")
    sock.set_inheritable(True)
    change()
    plain(sys.executable, __file__, "image", "plain", str(sock.fileno()))


def image_plain(fd):
    sock = of(fd)
    with open("/proc/self/maps") as maps:
        assert "libvma" not in maps.read()
    nodelay = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    sock.sendall(b"%d %d\n" % (os.get_blocking(sock.fileno()), nodelay))
    sock.sendall(names(sock))
    sock.setblocking(True)
    sock.sendall(numbered(LOTS))
    right = read_all(sock, LOTS) == numbered(LOTS)
    sock.sendall(b"%d\n" % right)
    echo_lines(sock)


def names(sock):
    return f"{sock.getsockname()} {sock.getpeername()}\n".encode()


def as_seen(sock):
    """What names() says at the other end."""
    return f"{sock.getpeername()} {sock.getsockname()}\n"


def compare_names(sock, right):
    told = line(sock).decode()
    return "ports" if told == right else "addresses" if told.count(HOST) == 2 else told


def client_plain(port):
    sock, closed = connect(port), connect(port)
    began = time.monotonic()
    assert read_all(sock, 7) == b"written"
    print(line(sock).decode().strip(), until_end(closed), "soon" if time.monotonic() - began < 4 else "late")
    print(compare_names(sock, as_seen(sock)))
    whole = read_all(sock, LOTS) == numbered(LOTS)
    sock.sendall(numbered(LOTS))
    print(whole, line(sock), echoes(sock, 10))
    sock.shutdown(socket.SHUT_WR)
    print(until_end(sock))


# stdio: an inetd, whose child executes the program with the connection as its descriptors 0 to 2.


def serve_stdio(listener, execute=plain):
    while True:
        sock = accept(listener)
        if os.fork() == 0:
            for fd in range(3):
                os.dup2(sock.fileno(), fd)
            execute("/bin/sh", "-c", line(sock).decode())
        sock.close()
        # Waits for the program, and for nobody else.
        pids = [os.wait()[0]]
        try:
            pids.append(os.wait())
        except ChildProcessError:
            pass
        assert len(pids) == 1


def await_unread(n):
    """Until a connection of the kernel has so many bytes to read."""
    while True:
        with open("/proc/net/tcp") as table:
            rows = [row.split()[4] for row in table]
        if any(row.endswith(":%08X" % n) for row in rows[1:]):
            return
        time.sleep(0.01)


COMMANDS = (
    b"cat",
    b"read a; echo got $a; cat",
    b"echo unread; exec sleep 1000",  # it is killed, and has not read all
    b"ls /proc/self/fd | wc -l",
)


def client_stdio(port, commands=COMMANDS):
    for command in commands:
        sock = connect(port)
        sock.sendall(command + b"\n")
        if b"sleep" in command:
            assert line(sock) == b"unread\n"
            sock.sendall(b"text\n")
            await_unread(5)
            # The shell may not have executed it yet.
            while subprocess.run(["pkill", "-KILL", "-x", "sleep"]).returncode:
                time.sleep(0.01)
            print(until_end(sock))
            continue
        if b"cat" in command:
            sock.sendall(b"text\n")
            sock.shutdown(socket.SHUT_WR)
        print(until_end(sock))


# restarts: the client's program has the connection when the server begins anew.


def serve_restarts(listener):
    sock = accept(listener)
    line(sock)
    port = listener.getsockname()[1]
    listener.close()
    with socket.create_server((HOST, port)):
        sock.sendall(b"bound\n")


def client_restarts(port):
    fd = connect(port).detach()
    os.set_inheritable(fd, True)
    plain("/bin/sh", "-c", f"echo hello >&{fd}; read a <&{fd}; echo $a")


# shared: a child of the process holds the connections, too. The child has had `sock`, and exec closes `closed`.


def echo_until_stop(sock):
    while (text := line(sock)) not in (b"stop\n", b""):
        sock.sendall(text)


def answers(who, sock):
    """One process of several that have it."""
    sock.sendall(who)
    echo_until_stop(sock)


def share_with_child(listener, fetch):
    sock, closed = accept(listener), accept(listener)
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        listener.close()
        answers(b"child\n", sock)
        theirs.send(b"execute\n")
        line(theirs)
        answers(b"child again\n", sock)
        answers(b"child\n", closed)
        os._exit(0)
    theirs.close()
    closed.sendall(line(closed) + line(ours))
    if fetch:
        select.select([sock], [], [])
    return sock, ours, closed


def serve_shared(listener):
    sock, way, _closed = share_with_child(listener, True)
    listener.set_inheritable(True)  # it has others, too
    become("shared", sock, way)


def image_shared(fd, way):
    sock, way = of(fd), of(way)
    whole = read_all(sock, LOTS) == numbered(LOTS)
    answers(b"program %d\n" % whole, sock)
    way.sendall(b"done\n")


def client_shared(port):
    sock, closed = connect(port), connect(port)
    print(line(sock), echoes(sock, 10))
    closed.sendall(b"read\n")
    sock.sendall(b"stop\n")
    print(line(closed), line(closed))
    sock.sendall(numbered(LOTS))
    print(line(sock), echoes(sock, 10))
    sock.sendall(b"stop\n")
    print(line(sock), echoes(sock, 10))
    sock.sendall(b"stop\n")
    print(line(closed), echoes(closed, 10))
    closed.sendall(b"stop\n")
    print(until_end(sock), until_end(closed))


# sharedplain: likewise, and the program does not have the library; the child has both when it is executed.


def serve_sharedplain(listener):
    sock, way, _closed = share_with_child(listener, False)
    for inherited in (sock, way):
        inherited.set_inheritable(True)
    plain(sys.executable, __file__, "image", "shared", str(sock.fileno()), str(way.fileno()))


client_sharedplain = client_shared


# between: the parent of the process has it, too. Of the first one the program has a descriptor.


def serve_between(listener):
    socks = [accept(listener) for _ in range(2)]
    parent, child = socket.socketpair(), socket.socketpair()
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            parent[1].close()
            child[0].close()
            line(child[1])
            for sock in socks:
                answers(b"child\n", sock)
            os._exit(0)
        answers(b"between\n", socks[1])
        become("between", socks[0], child[0], parent[1])
    for way in (*child, parent[1]):
        way.close()
    line(parent[0])
    for sock in socks:
        answers(b"parent\n", sock)
    os.waitpid(pid, 0)


def image_between(fd, child, _):
    answers(b"program\n", of(fd))
    way = of(child)
    way.sendall(b"go\n")
    line(way)  # until it has ended


def client_between(port):
    socks = [connect(port) for _ in range(2)]
    for i in (1, 0, 0, 1, 0, 1):
        print(line(socks[i]), echoes(socks[i], 10))
        socks[i].sendall(b"stop\n")


# waiting: connections that wait for accept() at a listener of the program; one has ended by then.


def serve_waiting(listener):
    line(accept(listener))
    become("waiting", listener)


def image_waiting(fd):
    listener = of(fd)
    for _ in range(3):
        sock = accept(listener)
        text = line(sock)
        sock.sendall(text + names(sock))
        echo_lines(sock)
        sock.close()
    # It goes on listening.
    echo_lines(accept(listener))


def client_waiting(port):
    report, *socks, ends = [connect(port) for _ in range(4)]
    right = as_seen(ends)
    ends.sendall(b"last\n")
    ends.shutdown(socket.SHUT_WR)
    socks[0].sendall(b"first\n")
    report.sendall(b"execute\n")
    until_end(report)
    socks[1].sendall(b"second\n")
    for sock in socks:
        print(line(sock), compare_names(sock, as_seen(sock)), echoes(sock, 10))
        sock.shutdown(socket.SHUT_WR)
        print(until_end(sock))
    print(line(ends), compare_names(ends, right), until_end(ends))
    print(echoes(connect(port), 10))


# waitingplain: likewise, of a program without the library.


def serve_waitingplain(listener):
    line(accept(listener))
    listener.set_inheritable(True)
    plain(sys.executable, __file__, "image", "waiting", str(listener.fileno()))


client_waitingplain = client_waiting


# refused: an exec that the kernel refuses, when its connection is no local one any more.


def serve_refused(listener):
    sock = accept(listener)
    sock.set_inheritable(True)
    try:
        plain("/bin/sleep", "x" * 200000)
    except OSError as e:
        sock.sendall(b"%d\n" % (e.errno == errno.E2BIG))
    echo_lines(sock)


def client_refused(port):
    sock = connect(port)
    print(line(sock), echoes(sock, 10))
    sock.shutdown(socket.SHUT_WR)
    print(until_end(sock))


# user: the process has changed its user.


def serve_user(listener):
    serve_plain(listener, lambda: os.setuid(65534))


client_user = client_plain


# same: likewise, and the program has the library.


def serve_same(listener):
    socks = [accept(listener) for _ in range(3)]
    os.setuid(65534)
    become("same", *socks)


def image_same(*fds):
    for fd in fds:
        echo_lines(of(fd))


def client_same(port):
    socks = [connect(port) for _ in range(3)]
    for sock in socks:
        print(echoes(sock, 10), end=" ")
        sock.shutdown(socket.SHUT_WR)
        print(until_end(sock))


# other: the program has the library, and begins without local connections.


def without_local(*argv):
    os.execve(argv[0], argv, dict(os.environ, VMA_LOCAL="0"))


def serve_other(listener):
    socks = [accept(listener) for _ in range(3)]
    for sock in socks:
        sock.set_inheritable(True)
    without_local(sys.executable, __file__, "image", "same", *[str(sock.fileno()) for sock in socks])


client_other = client_same


# inetd: likewise, of a child that has them as descriptors 0 to 2.


def serve_inetd(listener):
    serve_stdio(listener, without_local)


def client_inetd(port):
    client_stdio(port, (b"cat", b"read a; echo got $a; cat"))


# children: programs that children execute leave the parent's connection alone.


def serve_children(listener):
    sock = accept(listener)
    sock.set_inheritable(True)
    for text in [line(sock) for _ in range(5)]:
        subprocess.run(["/bin/true"], check=True)
        subprocess.run(["/bin/true"], check=True, close_fds=False)
        os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
        sock.sendall(text)
    echo_lines(sock)


def client_children(port):
    sock = connect(port)
    for i in range(5):
        sock.sendall(b"%d\n" % i)
    print([int(line(sock)) for _ in range(5)], echoes(sock, 10))


# killed: the peer is killed before the program begins.


def serve_killed(listener):
    sock = accept(listener)
    pid = int(line(sock))
    os.kill(pid, signal.SIGKILL)
    become("killed", sock)


def image_killed(fd):
    print(until_end(of(fd)), flush=True)
    select.select([], [], [])


def client_killed(port):
    sock = connect(port)
    sock.sendall(b"%d\nunread" % os.getpid())
    select.select([], [], [])


# dies: the program is one that cannot begin, after the kernel has executed it.


def serve_dies(listener):
    sock = accept(listener)
    sock.set_inheritable(True)
    directory = tempfile.mkdtemp(dir=os.path.dirname(__file__))
    open(f"{directory}/libc.so.6", "w").close()
    os.execve("/bin/sleep", ("sleep", "1000"), dict(os.environ, LD_LIBRARY_PATH=directory))


def client_dies(port):
    began = time.monotonic()
    until_end(connect(port))
    print("soon" if time.monotonic() - began < 3 else "late")


# exits: the program ends at once.


def serve_exits(listener):
    sock = accept(listener)
    sock.sendall(b"written")
    become("exits", sock)


def image_exits(fd):
    pass


def client_exits(port):
    print(until_end(connect(port)))


# many: as many as fit.


def serve_many(listener):
    socks = [accept(listener) for _ in range(200)]
    for i, sock in enumerate(socks):
        sock.sendall(b"%d\n" % i)
    become("many", *socks)


def image_many(*fds):
    for fd in fds:
        sock = of(fd)
        sock.sendall(b"again\n")
        sock.close()


def client_many(port):
    socks = [connect(port) for _ in range(200)]
    print(sum(until_end(sock) == (b"%d\nagain\n" % i, "end") for i, sock in enumerate(socks)))


# connecting: there is no room for it at the listener; the kernel connects it.


def serve_connecting(listener):
    signal.sigwait([signal.SIGUSR1])
    for text in (b"first\n", b"second\n"):
        accept(listener).sendall(text)


def client_connecting(port):
    first, sock = connect(port), socket.socket()
    sock.setblocking(False)
    assert sock.connect_ex((HOST, port)) == errno.EINPROGRESS
    become("connecting", sys.argv[4], first, sock)


def image_connecting(pid, *fds):
    first, sock = [of(fd) for fd in fds]
    os.kill(int(pid), signal.SIGUSR1)
    sock.setblocking(True)
    print(line(first), line(sock))


# made_up: an environment that says what is not so; it begins without the library.


def client_made_up(_):
    listener = socket.create_server((HOST, 0))
    sock = socket.create_connection(listener.getsockname())
    other = accept(listener)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.send(b"message")
    reads, _ = os.pipe()
    fd, inode = sock.fileno(), os.fstat(sock.fileno()).st_ino
    for inherited in (ours.fileno(), fd, other.fileno(), reads):
        os.set_inheritable(inherited, True)
    packed = (ours.fileno(), fd, other.fileno(), reads, 0, 999, 2**31, 2**62)
    text = ";".join("%d,%d,%d" % (fd, inode, number) for number in packed) + ";999,1,2;x"
    env = dict(os.environ, LD_PRELOAD=sys.argv[4], VMA_INHERITED_LOCAL=text, LIBVMA_DESCENDANT="1")
    become("made_up", sock, other, ours, env=env)


def image_made_up(a, b, c):
    one, other, ours = of(a), of(b), of(c)
    one.sendall(b"text\n")
    hidden = not any("INHERITED" in name for name in os.environ)
    print(line(other), ours.recv(100), hidden)


def main():
    what = sys.argv[1]
    if what == "image":
        globals()["image_" + sys.argv[2]](*sys.argv[3:])
    elif what == "client":
        globals()["client_" + sys.argv[3]](int(sys.argv[2]))
    else:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        room = 0 if sys.argv[3] == "connecting" else 256
        listener = socket.create_server((HOST, int(sys.argv[2])), backlog=room)
        print("ready", flush=True)
        globals()["serve_" + sys.argv[3]](listener)


main()
