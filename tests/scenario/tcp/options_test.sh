#!/bin/bash
# Options of TCP: which can be set at which time, and what is read back, on an unconnected socket, a
# listener, a connection and an accepted one: the same with the library on both sides as without it.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	connects              accepts
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
. tests/lib/compare.sh
netns_enter "$self" "$@"

netns_pair ""
cat > $netns_tmp/peer.py << 'END'
import errno, os, select, sys, time
from socket import *

TCP_NOTSENT_LOWAT = 25
looked = sys.argv[0] + ".looked" # exists when the server's side has looked
names = {
    "maxseg": TCP_MAXSEG, "clamp": TCP_WINDOW_CLAMP, "linger2": TCP_LINGER2,
    "lowat": TCP_NOTSENT_LOWAT, "keepidle": TCP_KEEPIDLE, "keepintvl": TCP_KEEPINTVL,
    "keepcnt": TCP_KEEPCNT, "timeout": TCP_USER_TIMEOUT,
}

def attempt(fn, *args):
    try:
        return fn(*args)
    except OSError as e:
        return errno.errorcode[e.errno]

def show(s, what, *which):
    print(what, *(f"{n}={attempt(s.getsockopt, IPPROTO_TCP, names[n])}" for n in which), flush=True)

def put(s, what, name, *values):
    for v in values:
        r = attempt(s.setsockopt, IPPROTO_TCP, names[name], v)
        print(what, name, v, r, attempt(s.getsockopt, IPPROTO_TCP, names[name]), flush=True)

def all_values(s, what):
    put(s, what, "maxseg", 1, 87, 88, 1000, 70000, 0, 1200)
    put(s, what, "clamp", -1, 1, 2000, 100000)
    put(s, what, "linger2", -5, 0, 7, 120, 121, 1000)
    put(s, what, "lowat", 0, 1, -1, 65536)

def fresh():
    s = socket()
    s.settimeout(None)
    show(s, "fresh", *names)
    all_values(s, "fresh")
    put(s, "fresh", "clamp", 0)
    s.close()

def inheritance(s, what):
    for name, v in (("maxseg", 900), ("clamp", 30000), ("linger2", 9), ("lowat", 20000),
                    ("keepidle", 77), ("keepintvl", 7), ("keepcnt", 5), ("timeout", 9000)):
        s.setsockopt(IPPROTO_TCP, names[name], v)
    show(s, what, *names)

def unsent(s, what):
    """How much a socket takes whose peer reads nothing: not what was not sent."""
    s.setsockopt(IPPROTO_TCP, TCP_NOTSENT_LOWAT, 30000)
    s.setblocking(False)
    p = select.poll()
    p.register(s, select.POLLOUT)
    print(what, "writable", p.poll(0) != [], flush=True)
    taken = 0
    for _ in range(200):
        r = attempt(s.send, bytes(1000))
        if isinstance(r, str):
            break
        taken += r
        time.sleep(0.001)
    time.sleep(0.3)
    print(what, "writable", p.poll(0) != [], "stopped", isinstance(r, str), flush=True)
    s.setsockopt(IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0)
    print(what, "writable", p.poll(0) != [], flush=True)
    s.setblocking(True)

port = int(sys.argv[2])
if sys.argv[1] == "serve":
    if os.path.exists(looked):
        os.unlink(looked)
    l = socket()
    l.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    l.bind(("10.9.0.2", port))
    l.listen()
    all_values(l, "listener")
    put(l, "listener", "clamp", 0)
    inheritance(l, "listener")
    l.setsockopt(SOL_SOCKET, SO_RCVBUF, 40000)
    l.setsockopt(SOL_SOCKET, SO_SNDBUF, 50000)
    print("ready", flush=True)
    c, _ = l.accept()
    show(c, "child", *names)
    print("child", c.getsockopt(SOL_SOCKET, SO_RCVBUF), c.getsockopt(SOL_SOCKET, SO_SNDBUF))
    all_values(c, "child")
    put(c, "child", "clamp", 0)
    while c.recv(65536):
        pass
    c2, _ = l.accept()
    show(c2, "second", *names)
    unsent(c2, "second")
    open(looked, "w").close()
    c2.close()
else:
    fresh()
    s = socket()
    inheritance(s, "client")
    s.setsockopt(IPPROTO_TCP, TCP_MAXSEG, 800)
    s.connect((sys.argv[1], port))
    show(s, "connected", "maxseg", "linger2", "lowat", "keepidle", "timeout")
    all_values(s, "connected")
    put(s, "connected", "clamp", 0)
    s.send(b"x")
    s.close()
    s = socket()
    s.setsockopt(SOL_SOCKET, SO_RCVBUF, 4000)
    s.connect((sys.argv[1], port))
    show(s, "plain", "maxseg", "linger2", "lowat")
    while not os.path.exists(looked):
        time.sleep(0.01)
    while s.recv(65536):
        pass
END

compare "$lib" "$lib" 'child maxseg=788'
