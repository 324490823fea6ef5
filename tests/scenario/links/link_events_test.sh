#!/bin/bash
# Links lose their carrier, go down, change their MTU, are removed and added again, under traffic:
# programs see the same as with the kernel alone.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	   x0 ------------------- x0, where the addresses move to
#	   its side may have the library, the other one is the kernel's
#
# With NETNS_NICS (in a guest) v0 are real interfaces: rows that take them out and back, or need a
# second pair, are left out then; rows of driver resets are run instead.
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

cat > $netns_tmp/rows.py << 'PY'
"""echo PORT: the peer's side.  ROW PORT ARG...: the transcript of one row."""
import os, select, socket, sys, threading, time

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/scenario/links")
from peer import HERE, THERE, TCP_USER_TIMEOUT, connection, name, row_echo, run


UNPLUG = os.environ.get("UNPLUG", "ip link del v0")
PLUG = ("ip link add v0 %s type veth peer name v0 netns s && ip -n s addr add 10.9.0.2/24 dev v0 &&"
        "ip -n s link set v0 %s up && ip addr add 10.9.0.1/24 dev v0 && ip link set v0 up")


def datagrams(*at):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    s.bind(at or ("", 0))
    return s


def ask(udp, port):
    """An answer, although some may be lost."""
    udp.settimeout(0.3)
    for _ in range(90):
        try:
            udp.sendto(b"x", (THERE, port))
            return udp.recv(10)
        except OSError:
            time.sleep(0.05)
    return "none"


def descriptors():
    names = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink("/proc/self/fd/" + fd))
        except OSError:
            pass
    return names


def bpf():
    return sum("bpf" in n for n in descriptors())


def lasting():
    """Less what each thread of the library sleeps on once it does."""
    return sum("eventfd" not in n for n in descriptors())


def await_sends(good):
    """Netlink tells the library, which tells nobody: until good() is true of what sends say."""
    end = time.monotonic() + 30
    while not good() and time.monotonic() < end:
        time.sleep(0.01)


def by_kernel():
    """Does the kernel see segments?  It must, without the library, within 20 seconds."""

    def segments():
        lines = [l.split() for l in open("/proc/self/net/snmp") if l.startswith("Tcp:")]
        return int(dict(zip(*lines))["InSegs"])

    before, ours = segments(), "LD_PRELOAD" in os.environ
    for i in range(200):
        time.sleep(0.1)
        if segments() != before or ours and i == 2:
            break
    return (segments() != before) != ours


class Players:
    """Streams that play ping-pong, with messages of all sizes."""

    def __init__(self, port, n):
        self.socks = [connection(port) for _ in range(n)]
        self.count, self.failed, self.stop = [0] * n, [], False
        self.threads = [threading.Thread(target=self.play, args=(i,)) for i in range(n)]
        for t in self.threads:
            t.start()

    def play(self, i):
        try:
            while not self.stop:
                data = bytes([65 + i]) * (1 + self.count[i] * 997 % 9000)
                self.socks[i].sendall(data)
                got = b""
                while len(got) < len(data):
                    more = self.socks[i].recv(65536)
                    if not more:
                        raise OSError("end")
                    got += more
                if got != data:
                    raise OSError("other bytes")
                self.count[i] += 1
                time.sleep(0.003)  # about as long as a message: half of them are under way, on few processors, too
        except OSError as e:
            self.failed.append(name(self.fail, e))

    def fail(self, e):
        raise e

    def going_on(self):
        """How many play within 30 seconds."""
        before = list(self.count)
        for _ in range(300):
            time.sleep(0.1)
            if all(a > b for a, b in zip(self.count, before)):
                break
        return sum(a > b for a, b in zip(self.count, before))

    def end(self):
        self.stop = True
        for t in self.threads:
            t.join()


def row_play(port, first, hold, second):
    """An event while eight streams and a datagram socket play."""
    players, udp = Players(port, 8), datagrams(HERE, 0)
    print("before", players.going_on(), ask(udp, port))
    run(first)
    time.sleep(float(hold))
    print("meanwhile", name(udp.sendto, b"y" * 1200, (THERE, port)))
    run(second)
    print("after", players.going_on(), players.failed, players.going_on(), "by whom we think", by_kernel())
    while name(udp.recv, 2000) not in ("timed out", "EAGAIN"):
        udp.settimeout(0.5)
    print(ask(udp, port), name(connection, port) is not None)
    players.end()


def row_sizes(port):
    """Datagrams while the MTU changes."""
    udp = datagrams(HERE, 0)
    strict = datagrams(HERE, 0)
    strict.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO
    for mtu in (1500, 1000, 1400, 1500):
        run("ip link set v0 mtu %d && ip -n s link set v0 mtu %d" % (mtu, mtu))
        await_sends(lambda: (name(strict.sendto, bytes(mtu - 27), (THERE, port)),
                             name(strict.sendto, bytes(mtu - 28), (THERE, port))) == ("EMSGSIZE", mtu - 28))
        for size in (500, 972, 973, 1372, 1373, 1472, 1473, 4000):
            sent = name(udp.sendto, b"z" * size, (THERE, port))
            got = name(lambda: len(udp.recv(9000)))
            print(mtu, size, sent, got, "strict", name(strict.sendto, b"z" * size, (THERE, port)))


def row_unplug(port, options):
    """Threads that sleep while the interface is taken out; it comes back."""
    run(UNPLUG + ";" + PLUG % ("", ""))
    udp, wild = datagrams(HERE, 0), datagrams("", 0)
    listeners = [socket.create_server(at) for at in ((HERE, 6001), ("", 6002))]
    streams = [connection(port) for _ in range(4)]
    print(ask(udp, port))
    heard = {}

    def hear(what, s):
        s.settimeout(50)
        heard[what] = name(s.recv, 100)

    ep = select.epoll()

    def watch():
        ep.register(streams[1].fileno(), select.EPOLLIN)
        ep.register(wild.fileno(), select.EPOLLIN)
        heard["epoll"] = len(ep.poll(50))

    threads = [threading.Thread(target=hear, args=a) for a in (("stream", streams[0]), ("udp", udp))]
    threads.append(threading.Thread(target=watch))
    for t in threads:
        t.start()
    time.sleep(0.5)
    fds = lasting()
    run(UNPLUG)
    await_sends(lambda: name(udp.sendto, b"x", (THERE, port)) == "ENETUNREACH")
    used = sum(os.times()[:2])
    time.sleep(2)
    used = sum(os.times()[:2]) - used
    print("it sleeps", used < 0.4 or used, "bpf descriptors", bpf(),
          "descriptors more", max(0, lasting() - fds))
    print(name(streams[2].send, b"queued"), name(udp.sendto, b"x", (THERE, port)),
          name(wild.sendto, b"x", (THERE, port)))
    run(PLUG % (options, options))
    streams[2].settimeout(50)
    print(streams[2].recv(100))
    streams[0].send(b"ping")
    streams[1].send(b"pong")
    udp.sendto(b"datagram", (THERE, port))
    for t in threads:
        t.join()
    print(sorted(heard.items()))
    print(streams[1].recv(100))
    for s in streams:
        s.settimeout(50)
        s.send(b"more")
        print(name(s.recv, 100))
    print(ask(wild, port), ask(udp, port), connection(port) is not None)
    for s, p in zip(listeners, (6001, 6002)):
        run("nsenter --net=/run/netns/s python3 -c 'import socket; socket.create_connection((\"%s\", %d), 30).send(b\"hi\")'" % (HERE, p))
        print(s.accept()[0].recv(10))
    for _ in range(300):  # one may be open for a moment
        if lasting() <= fds + 3:
            break
        time.sleep(0.1)
    print("descriptors more", max(0, lasting() - fds - 3))


def row_lost(port):
    """It does not come back."""
    socks = {}
    for what in ("queued", "keepalive", "silent"):
        socks[what] = s = connection(port)
        s.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, 1500)
    s = socks["keepalive"]
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    udp = datagrams(HERE, 0)
    run(UNPLUG)
    await_sends(lambda: name(udp.sendto, b"x", (THERE, port)) == "ENETUNREACH")
    print(name(socks["queued"].send, b"queued"), name(udp.sendto, b"x", (THERE, port)))
    for what in ("queued", "keepalive"):
        socks[what].settimeout(30)
        print(what, name(socks[what].recv, 100))
    socks["silent"].setblocking(False)
    print("silent", name(socks["silent"].recv, 100))
    print(name(socks["silent"].send, b"x"), name(socket.create_connection, (THERE, port)))
    print("bpf descriptors", bpf())
    for s in socks.values():
        s.close()
    if "UNPLUG" not in os.environ:
        run(PLUG % ("", ""))
        print(connection(port) is not None)


def row_stay(port):
    """Plays until it is told to look."""
    players, udp = Players(port, 4), datagrams(HERE, 0)
    print(players.going_on(), ask(udp, port), "ready")
    print("ready", flush=True)
    sys.stdin.readline()
    print("after", players.going_on(), players.failed, ask(udp, port), by_kernel(), flush=True)
    players.end()


def row_moved(port):
    """The addresses move to other interfaces of their hosts."""
    players, udp = Players(port, 8), datagrams(HERE, 0)
    listener = socket.create_server((HERE, 6001))
    print("before", players.going_on(), ask(udp, port))
    for a, b in ("v0", "x0"), ("x0", "v0"):
        run("ip addr del 10.9.0.1/24 dev %s; ip -n s addr del 10.9.0.2/24 dev %s" % (a, a))
        time.sleep(0.3)
        run("ip addr add 10.9.0.1/24 dev %s; sleep 0.2; ip -n s addr add 10.9.0.2/24 dev %s" % (b, b))
        print("after", players.going_on(), players.failed, "by whom we think", by_kernel())
        print(ask(udp, port), connection(port) is not None)
        run("nsenter --net=/run/netns/s python3 -c 'import socket; socket.create_connection((\"%s\", 6001), 30).send(b\"hi\")'" % HERE)
        print(listener.accept()[0].recv(10))
    players.end()


globals()["row_" + sys.argv[1]](int(sys.argv[2]), *sys.argv[3:])
PY

NETNS_VETH_QUEUES=4 netns_pair ""
netns_spawn $netns_tmp/serve s "" python3 $netns_tmp/rows.py echo 7000 ||
	await 60 is_ready $netns_tmp/serve $spawned || die "no server" # a guest is slow

# play_on LIB ARG...: runs rows.py with one RX queue of veth.
play_on() {
	[[ -n ${NETNS_NICS:-} ]] || in_ns c ethtool -L v0 rx 1 tx 1 2> /dev/null # none after that
	netns_run c "$1" python3 $netns_tmp/rows.py "${@:2}"
}

# row TITLE WORDS NAME ARG...: the same result with the kernel and with the library; the kernel's
# contains WORDS.
row() {
	local log=$netns_tmp/row

	play_on "" "$3" 7000 "${@:4}" > $log.kernel
	play_on "$lib" "$3" 7000 "${@:4}" > $log.all
	grep -v "VMA WARNING" $log.all > $log.library
	check "$1: the kernel behaves as expected" grep -q "$2" $log.kernel || cat $log.kernel
	check "$1: the same with the library" diff $log.kernel $log.library
}

row "the peer's carrier" "after 8 \[\] 8" play "ip -n s link set v0 down" 1 "ip -n s link set v0 up"
row "down and up" "after 8 \[\] 8" play "ip link set v0 down" 1 "ip link set v0 up"
row "a smaller MTU" "after 8 \[\] 8" play "ip link set v0 mtu 1000; ip -n s link set v0 mtu 1000" 0.5 true
row "the old MTU" "after 8 \[\] 8" play "ip link set v0 mtu 1300; ip -n s link set v0 mtu 1300" 0.5 \
	"ip link set v0 mtu 1500; ip -n s link set v0 mtu 1500"
[[ -n ${NETNS_NICS:-} ]] ||
	row "another MAC address" "after 8 \[\] 8" play "ip link set v0 address 02:00:00:00:00:55; ip -n s neigh flush dev v0" 0.5 true
# The peer sends by four queues, so that XDP is generic. Native XDP of veth does not see new queues.
[[ -n ${NETNS_NICS:-} ]] || row "more RX queues" "after 8 \[\] 8" play "ethtool -L v0 rx 4" 3 true
row "sizes" "1000 973 973 973 strict EMSGSIZE" sizes
# The driver resets. "FROM|TO": ethtool refuses to set what is set already, so FROM comes first.
for what in "-r v0|-r v0" "-K v0 gro on|-K v0 gro off" "-K v0 gro off|-K v0 gro on" "-G v0 rx 256|-G v0 rx 512" \
	"-G v0 rx 512|-G v0 rx 256" "-L v0 combined 2|-L v0 combined 1" "-L v0 combined 1|-L v0 combined 2"; do
	[[ -n ${NETNS_NICS:-} ]] || break
	from=${what%|*} to=${what#*|}
	# A driver that cannot: its result for TO decides, after FROM, which may be set already.
	# shellcheck disable=SC2086 # words
	in_ns c sh -c "ethtool $from; ethtool $to" > /dev/null 2>&1 || continue
	row "ethtool $to" "after 8 \[\] 8" play "ethtool $from; ethtool $to" 3 true
done

if [[ -n ${NETNS_NICS:-} ]]; then
	# Unplugs the device permanently: so the row of the kernel is the one that veth gives.
	bus=$(in_ns c ethtool -i v0 | awk '/^bus-info/ { print $2 }')
	UNPLUG="echo 1 > /sys/bus/pci/devices/$bus/remove"
	export UNPLUG
	netns_run c "$lib" python3 $netns_tmp/rows.py lost 7000 > $netns_tmp/lost
	cat $netns_tmp/lost
	check "out of its slot: streams" test "$(grep -c ETIMEDOUT $netns_tmp/lost)" == 2
	check "out of its slot: the rest" grep -q "^6 ENETUNREACH" $netns_tmp/lost
	check "out of its slot: nothing is left" grep -q "^bpf descriptors 0" $netns_tmp/lost
	echo "rows that need veth are left out"
	verdict
	exit
fi
row "taken out" "it sleeps True" unplug ""
row "taken out, and back with frames too large for us" "it sleeps True" unplug "mtu 16000"
[[ -z $lib ]] || check "... with a warning" grep -q "MTU of 16000 does not fit" $netns_tmp/row.all
row "taken out for good" "keepalive ETIMEDOUT" lost
ip link add x0 netns c type veth peer name x0 netns s
ip -n c link set x0 up
ip -n s link set x0 up
await 30 netns_is_up c x0 || die "the link stays down"
row "addresses move" "after 8 \[\]" moved

needs bpftool
# connections: how many the XDP program of c's v0 steers.
connections() {
	local prog map n=0

	prog=$(ip -n c -d -o link show v0 | sed -nE 's/.* prog\/xdp id ([0-9]+) .*/\1/p')
	for map in $(bpftool prog show id "${prog:-none}" | sed -nE 's/.*map_ids ([0-9,]+).*/\1/p' | tr , ' '); do
		! bpftool map show id "$map" | grep -q ' name conns ' || n=$(bpftool -j map dump id "$map" | python3 -c '
import json, sys
print(sum(any(int(byte, 16) for byte in entry["value"]) for entry in json.load(sys.stdin)))')
	done
	echo $n
} 2> /dev/null

steers() {
	(($(connections) >= $1))
}

# plug [CONNECTIONS]: the peer can send when so many are steered. Until then the kernel would reset them: see
# README.md, Limits.
plug() {
	local queues=(numrxqueues 4 numtxqueues 4)

	ip link add v0 netns c "${queues[@]}" type veth peer name v0 netns s "${queues[@]}"
	in_ns c ethtool -L v0 rx 1 tx 1
	netns_up c v0 $netns_client
	ip -n s link set v0 up
	await 30 netns_is_up c v0 || die "the link stays down"
	await 30 steers "${1:-0}" || echo "only $(connections) of $1 connections are steered"
	netns_up s v0 $netns_server
}

replug() {
	local n

	n=$(connections)
	echo "     $n connections"
	ip -n c link del v0
	sleep 1 # the link is away so long
	plug "$n"
}

more_queues() {
	in_ns c ethtool -L v0 rx 4
	sleep 1 # a stream retransmits what it lost
}

# together LIB NAME EVENT: two processes of one port group.
together() {
	local i log=$netns_tmp/$2.$3 players=()

	for i in 1 2; do
		mkfifo $log.go.$i
		netns_exec c "$1" 0-1023 timeout 300 python3 $netns_tmp/rows.py stay 7000 \
			< $log.go.$i > $log.$i 2>&1 &
		players+=($!)
	done
	exec 8> $log.go.1 9> $log.go.2
	for i in 1 2; do
		await 100 grep -q '^ready' $log.$i || cat $log.$i
	done
	"$3"
	echo >&8
	echo >&9
	exec 8>&- 9>&-
	for i in 1 2; do
		await 100 grep -q "^after" $log.$i # it looks for 30 s, and asks for 30 s
		check "$2: $3: process $i continues" grep -q "after 4 \[\] b'x' True" $log.$i || cat $log.$i
	done
	wait "${players[@]}"
}

for event in more_queues replug; do
	for which in kernel library; do
		[[ $which == kernel || -n $lib ]] || continue
		ip -n c link del v0
		plug
		[[ $which == kernel ]] && with= || with=$lib
		together "$with" $which $event
	done
done
verdict
