#!/bin/bash
# An address is removed from the host: its sockets return, and the peer sees, the same as with the
# kernel; everything continues when the address is added again.
#
#	c  v0 10.9.0.1, which comes and goes ---------- v0 10.9.0.2  s
#	   its side may have the library                the kernel's
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

cat > $netns_tmp/rows.py << 'PY'
"""echo PORT: the peer's side.  ROW PORT: the transcript of one row."""
import os, select, socket, sys, threading, time

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/scenario/links")
from peer import HERE, THERE, TCP_USER_TIMEOUT, connection, name, row_echo, run


def await_gone(gone):
    """Netlink tells the library, which tells nobody: until sends see it."""
    while (name(prober.sendto, b"x", (THERE, 9)) == "ENETUNREACH") != gone:
        time.sleep(0.01)
    time.sleep(0.3)  # sockets that it looks at later


def lose():
    run("ip addr del %s/24 dev v0" % HERE)
    await_gone(True)


def regain():
    run("ip addr add %s/24 dev v0" % HERE)
    await_gone(False)


def datagrams(*at):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(1)
    if at:
        s.bind(at)
    return s


def row_sends(port):
    to = (THERE, port)
    bound, wild, both, connected = datagrams(HERE, 0), datagrams("", 0), datagrams(HERE, 0), datagrams()
    both.connect(to)
    connected.connect(to)
    ready, stream = socket.socket(), connection(port)
    ready.bind((HERE, 0))

    def tell(when):
        print(when, "bound", name(bound.sendto, b"x", to), "wildcard", name(wild.sendto, b"x", to),
              "bound and connected", name(both.send, b"x"), "connected", name(connected.send, b"x"),
              "stream", name(stream.send, b"12345"))
        for s in (bound, wild, both, connected):
            print(when, name(s.recv, 100))

    tell("before")
    print(stream.recv(100))
    lose()
    tell("gone")
    print("connect bound", name(ready.connect, to))
    print("bind", name(datagrams().bind, (HERE, 0)))
    regain()
    tell("back")
    got = b""
    while len(got) < 10:
        got += stream.recv(100)
    print(got)
    ready = socket.socket()
    ready.bind((HERE, 0))
    print("connect bound", name(ready.connect, to))


def row_timeouts(port):
    socks = {}
    for what in ("queued", "keepalive", "silent"):
        socks[what] = s = connection(port)
        s.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, 1500)
    s = socks["keepalive"]
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    lose()
    socks["queued"].send(b"queued")
    for what in ("queued", "keepalive"):
        socks[what].settimeout(30)
        print(what, name(socks[what].recv, 100))
    socks["silent"].setblocking(False)
    print("silent", name(socks["silent"].recv, 100))
    regain()
    socks["silent"].settimeout(30)
    print(socks["silent"].send(b"still"), socks["silent"].recv(100))


def row_queued(port):
    """Data of both directions is on its way when the address goes, and while it is gone."""
    s = connection(port)
    want = got = 0
    chunk = b"0123456789" * 100
    for step in range(40):
        if step == 10:
            lose()
        if step == 30:
            regain()
        s.sendall(chunk)
        want += len(chunk)
        time.sleep(0.02)
    while got < want:
        got += len(s.recv(65536))
    print("all of it", got)


def descriptors():
    """Less what each thread of the library sleeps on once it does."""
    names = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink("/proc/self/fd/" + fd))
        except OSError:
            pass
    return sum("eventfd" not in n for n in names)


def row_busy(port):
    """32 connections play ping-pong: each must go on, however often the address goes."""
    socks = [connection(port) for _ in range(32)]
    for s in socks:
        s.settimeout(50)
    udp = datagrams(HERE, 0)
    count, failed, stop = [0] * 32, [], []

    def play(i):
        try:
            while not stop:
                socks[i].sendall(b"ping!")
                left = 5
                while left:
                    data = socks[i].recv(left)
                    if not data:
                        raise OSError("end")
                    left -= len(data)
                count[i] += 1
        except OSError as e:
            failed.append(str(e))

    threads = [threading.Thread(target=play, args=(i,)) for i in range(32)]
    for t in threads:
        t.start()
    time.sleep(0.3)
    fds = descriptors()
    for i in range(50):
        run("ip addr del %s/24 dev v0" % HERE)
        time.sleep(0.002 * (i % 10))
        run("ip addr add %s/24 dev v0" % HERE)
        time.sleep(0.01)
    time.sleep(0.5)
    before = list(count)
    for _ in range(400):  # the retransmission timeout of the peer may be long by then
        time.sleep(0.1)
        if all(a > b for a, b in zip(count, before)):
            break
    print("connections that go on", sum(a > b for a, b in zip(count, before)), failed)
    print("datagrams go on", udp.sendto(b"x", (THERE, port)), name(udp.recv, 10))
    for _ in range(300):  # one may be open for a moment
        if descriptors() <= fds:
            break
        time.sleep(0.1)
    print("descriptors more", max(0, descriptors() - fds))
    print("paused", flush=True)
    sys.stdin.readline()
    stop.append(1)
    for t in threads:
        t.join()


def tell_changes():
    await_gone(True)
    print("gone", flush=True)
    await_gone(False)
    print("back", flush=True)


def row_serve(port):
    """We are the server; the test looks at what the peer sees."""
    udp = datagrams(HERE, port)
    wild = datagrams("", port + 1)
    listeners = []
    for at in ((HERE, port), ("", port + 1)):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(at)
        s.listen()
        listeners.append(s)
    socks = [udp, wild] + listeners
    print("ready", flush=True)
    threading.Thread(target=tell_changes, daemon=True).start()
    while True:
        for s in select.select(socks, [], [])[0]:
            if s in listeners:
                socks.append(s.accept()[0])
                continue
            try:
                data, addr = s.recvfrom(2000)
                if s in (udp, wild):
                    s.sendto(data, addr)
                elif data:
                    s.sendall(data)
            except OSError:
                data = b"x"
            if not data:
                socks.remove(s)
                s.close()


def row_client(port):
    """At the peer: asks our sockets; "lose" and "regain" are done by the test."""
    udp, wild = datagrams(), datagrams()
    udp.connect((HERE, port))
    wild.connect((HERE, port + 1))
    streams = [socket.create_connection((HERE, port + i)) for i in (0, 1)]

    def received():
        for line in open("/proc/self/net/dev"):
            if line.split()[0] == "v0:":
                return int(line.split()[2])

    def ask(when):
        patience = 1 if when == "gone" else 30
        socket.setdefaulttimeout(patience)
        for s in (udp, wild, *streams):
            s.settimeout(patience)
        for what, s in ("udp", udp), ("udp wildcard", wild), ("tcp", streams[0]), ("tcp wildcard", streams[1]):
            print(when, what, name(s.send, b"echo"), name(s.recv, 100))
        for i in (0, 1):
            print(when, "connect", name(socket.create_connection, (HERE, port + i)) in ("timed out", "ETIMEDOUT"))

    def step(what):
        print(what, flush=True)
        sys.stdin.readline()

    ask("before")
    step("lose")
    before = received()
    ask("gone")
    print("frames received meanwhile", received() - before)
    step("regain")
    time.sleep(0.5)
    for s in streams:
        s.settimeout(30)  # until the next retransmission
        print(s.recv(100))
    ask("back")


if sys.argv[1] not in ("echo", "client"):  # the peer's
    prober = datagrams(HERE, 0)
globals()["row_" + sys.argv[1]](int(sys.argv[2]))
PY

# The kernel's side of each row is in a pair of its own, at the same time: ck and sk.
# No ARP for the addresses of the links: frames are sent in any case, and a neighbour that is confirmed
# meanwhile is not among those that are counted.
mac_of() {
	ip -n "$1" -o link show v0 | sed -E 's#.*link/ether ([0-9a-f:]+).*#\1#'
}
for pair in "" k; do
	netns_pair "$pair"
	ip -n "s$pair" neigh replace $netns_client lladdr "$(mac_of "c$pair")" dev v0 nud permanent
	ip -n "c$pair" neigh replace $netns_server lladdr "$(mac_of "s$pair")" dev v0 nud permanent
	netns_spawn $netns_tmp/serve$pair "s$pair" "" python3 $netns_tmp/rows.py echo 7000 || die "no server"
done

# row NAME WORDS: the same result with the kernel and with the library; the kernel's contains WORDS.
row() {
	netns_run ck "" python3 $netns_tmp/rows.py "$1" 7000 > $netns_tmp/$1.kernel &
	netns_run c "$lib" python3 $netns_tmp/rows.py "$1" 7000 > $netns_tmp/$1
	wait $!
	check "$1: the kernel behaves as expected" grep -q "$2" $netns_tmp/$1.kernel || cat $netns_tmp/$1.kernel
	check "$1: the same with the library" diff $netns_tmp/$1.kernel $netns_tmp/$1
}

# says LOG LINE: waits until the program prints that line; the program waits for us then.
says() {
	[[ $(tail -n 1 "$1") == "$2" ]]
}

row sends "gone bound ENETUNREACH"
row timeouts "queued ETIMEDOUT"
row queued "all of it 40000"

# served NAME PAIR LIB: what the peer receives; the status of its client.
served() {
	local log=$netns_tmp/served.$1 server client rc=0

	netns_spawn $netns_tmp/server.$1 "c$2" "$3" python3 $netns_tmp/rows.py serve 7100 || die "no server"
	server=$spawned
	mkfifo $netns_tmp/go.$1
	(netns_exec "s$2" "" 0-1023 timeout 120 python3 $netns_tmp/rows.py client 7100 < $netns_tmp/go.$1 > "$log" 2>&1) &
	client=$!
	exec 9> $netns_tmp/go.$1
	await 30 says "$log" lose || cat "$log"
	ip -n "c$2" addr del $netns_client/24 dev v0
	await 30 grep -q '^gone' $netns_tmp/server.$1 || cat $netns_tmp/server.$1
	echo >&9
	await 30 says "$log" regain || cat "$log"
	ip -n "c$2" addr add $netns_client/24 dev v0
	await 30 grep -q '^back' $netns_tmp/server.$1 || cat $netns_tmp/server.$1
	echo >&9
	exec 9>&-
	wait $client || rc=$?
	netns_kill $server
	return $rc
}
(trap - EXIT; served kernel k "") &
kernel=$!
check "the peer: the client ends" served library "" "$lib" || cat $netns_tmp/served.library
check "the peer: the kernel's, too" wait $kernel || cat $netns_tmp/served.kernel
check "the peer: the kernel behaves as expected" grep -q "frames received meanwhile 0" $netns_tmp/served.kernel || cat $netns_tmp/served.kernel
check "the peer: the same with the library" diff $netns_tmp/served.kernel $netns_tmp/served.library

declare -A players
# busy NAME PAIR LIB: 32 connections, which wait for a line when they have been judged.
busy() {
	mkfifo $netns_tmp/go.busy.$1
	(netns_exec "c$2" "$3" 0-1023 timeout 120 python3 $netns_tmp/rows.py busy 7000 < $netns_tmp/go.busy.$1 \
		> $netns_tmp/busy.$1 2>&1) &
	players[$1]=$!
}

# remains NAME LIB: what remains of them.
remains() {
	local log=$netns_tmp/busy.$1 before

	exec 9> $netns_tmp/go.busy.$1
	check "$1: 50 times" await 60 says $log paused || cat $log
	check "$1: each connection continues" grep -q "go on 32 \[\]" $log || cat $log
	check "$1: datagrams, too" grep -q "datagrams go on 1 b'x'" $log || cat $log
	check "$1: no descriptor is left" grep -q "descriptors more 0" $log || cat $log
	if [[ -n $2 ]]; then
		check "$1: no address is left in the map" await 30 no_gone
		before=$(netns_counters c TcpInSegs)
		sleep 0.3 # connections play meanwhile
		check "$1: bypasses the kernel" test "$before" = "$(netns_counters c TcpInSegs)"
	fi
	echo >&9
	exec 9>&-
	check "$1: they end" wait "${players[$1]}" || cat $log
}

no_gone() {
	[[ $(bpftool map dump name gone 2> /dev/null | grep -c key) == 0 ]]
}

busy kernel k ""
[[ -z $lib ]] || busy library "" "$lib"
remains kernel ""
[[ -z $lib ]] || remains library "$lib"
verdict
