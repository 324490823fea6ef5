#!/bin/bash
# Urgent data, MSG_OOB, POLLPRI, SIGURG, SO_OOBINLINE and SIOCATMARK: the same results
# with the library as without, in both directions.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	asks, plain and with the library      answers, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
. tests/lib/compare.sh
netns_enter "$self" "$@"

netns_pair ""
cat > $netns_tmp/peer.py << 'END'
import array, fcntl, os, select, signal, socket, struct, sys, termios, time

SIOCOUTQ = 0x5411
meeting = os.path.dirname(os.path.abspath(sys.argv[0])) + "/meeting"

signals = 0
def on_urgent(number, frame):
    global signals
    signals += 1
signal.signal(signal.SIGURG, on_urgent)

def exchange(s, name, other):
    def meet():
        other.send(b"x")
        assert other.recv(1)
    def arrive():
        """All that both sides have sent has arrived."""
        while struct.unpack("i", fcntl.ioctl(s, SIOCOUTQ, bytes(4)))[0]:
            time.sleep(0.001)
        meet()
    def stream():
        try:
            return s.recv(100)
        except OSError as e:
            return e.errno
    def oob(flags=0):
        try:
            return s.recv(1, socket.MSG_OOB | flags)
        except OSError as e:
            return e.errno
    def at_mark():
        n = array.array("i", [0])
        fcntl.ioctl(s, termios.TIOCINQ + 0x8905 - 0x541B, n)
        return n[0]
    def pri():
        p = select.poll()
        p.register(s, select.POLLPRI)
        return p.poll(30000) != []
    s.settimeout(None)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 50, 0))
    print(name, "nothing", oob())
    fcntl.fcntl(s, fcntl.F_SETOWN, os.getpid())
    meet()
    s.send(b"abc")
    s.send(b"xyZ", socket.MSG_OOB)
    s.send(b"def")
    arrive()
    print(name, "pri", pri(), oob(socket.MSG_PEEK), oob(), oob(), "signals", signals)
    fcntl.fcntl(s, fcntl.F_SETOWN, 0)
    print(name, stream(), at_mark(), stream(), at_mark())
    meet()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    s.send(b"12", socket.MSG_OOB)
    s.send(b"34")
    arrive()
    print(name, "inline", oob(), stream(), at_mark(), stream(), at_mark(), "signals", signals)

port = int(sys.argv[2])
if sys.argv[1] == "serve":
    l = socket.create_server(("", port))
    m = socket.socket(socket.AF_UNIX)
    if os.path.exists(meeting):
        os.unlink(meeting)
    m.bind(meeting)
    m.listen()
    print("ready", flush=True)
    exchange(l.accept()[0], "server", m.accept()[0])
else:
    s = socket.create_connection((sys.argv[1], port))
    m = socket.socket(socket.AF_UNIX)
    m.connect(meeting)
    exchange(s, "client", m)
END

compare "" "$lib" 'client pri True b.Z. b.Z. 22 signals 1'
