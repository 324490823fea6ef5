#!/bin/bash
# Reasons why the kernel serves a socket: a program creates every situation, and the log counts
# each. And what VMA_EXCEPTION_HANDLING does about an option that only the kernel can serve.
#
#	c  v0 10.9.0.1 ---------------------- v0 10.9.0.2  s
#	   j0 10.9.1.1 -- MTU 16000, too big - j0 10.9.1.2
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

netns_pair ""
ip link add j0 netns c mtu 16000 type veth peer name j0 netns s mtu 16000
netns_up c j0 10.9.1.1
netns_up s j0 10.9.1.2
ip -n c addr add 10.8.8.8/32 dev lo
await 30 netns_is_up c j0 && await 30 netns_is_up s j0 || die "the link stays down"

cat > $netns_tmp/prog.py << 'END'
import errno, os, sys, struct
from socket import *

IP_RECVOPTS = 6
def udp():
    s = socket(AF_INET, SOCK_DGRAM)
    s.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    return s

def attempt(what, fn, *args):
    try:
        fn(*args)
        print(what, "fine", flush=True)
    except OSError as e:
        print(what, errno.errorcode[e.errno], flush=True)

def undecided(): socket(AF_INET, SOCK_STREAM).close()
def accelerated():
    s = udp(); s.sendto(b"x", ("10.9.0.2", 9)); s.close()
def family():
    s = socket(AF_INET6, SOCK_DGRAM); attempt("family", s.sendto, b"x", ("fe80::1", 9)); s.close()
def loopback():
    s = udp(); s.bind(("127.0.0.1", 7001)); s.close()
def no_route():
    attempt("no route", socket().connect, ("192.0.2.1", 9))
def broadcast():
    s = udp(); s.setsockopt(SOL_SOCKET, SO_BROADCAST, 1); s.connect(("10.9.0.255", 9)); s.close()
def interface():
    s = udp(); s.bind(("10.8.8.8", 7002)); s.close()
def port_failed():
    s = udp(); s.bind(("10.9.1.1", 7003)); s.close()
def shared_port():
    s = udp(); s.bind(("10.9.0.1", 7777)); s.close()
def option():
    s = udp(); attempt("option", s.setsockopt, IPPROTO_IP, IP_OPTIONS, b"\x01\x01\x01\x00"); s.close()
def call():
    import ctypes
    s = socket(); assert ctypes.CDLL(None).bindresvport(s.fileno(), None) == 0; s.close()
def stopped():
    s = socket(); s.bind(("10.9.0.1", 7004)); s.listen(); s.shutdown(SHUT_RDWR); s.close()
def forked():
    s = socket() # not used yet: the kernel serves the child's
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    os.waitpid(pid, 0); s.close()
def passed():
    s = udp(); s.bind(("10.9.0.1", 7005))
    a, b = socketpair(AF_UNIX, SOCK_STREAM)
    send_fds(a, [b"x"], [s.fileno()]); s.close()
def no_resources():
    # So few descriptors that neither netlink nor the internal thread gets one.
    import resource
    n = os.dup(0); os.close(n)
    resource.setrlimit(resource.RLIMIT_NOFILE, (n + 1, 4096))
    s = udp(); attempt("bind", s.bind, ("10.9.0.1", 7006)); s.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
def live():
    s = socket(); s.connect(("10.9.0.2", 7100))
    attempt("live", s.setsockopt, IPPROTO_IP, IP_OPTIONS, b"\x01\x01\x01\x00")
    attempt("bad", s.setsockopt, IPPROTO_IP, IP_OPTIONS, b"\x07\x01\x01\x00")
    s.close()
def passed_live():
    import subprocess
    a, b = socketpair(AF_UNIX, SOCK_STREAM)
    plain = subprocess.Popen(["sleep", "100"], pass_fds=[b.fileno()], env={}) # without the library
    s = socket(); s.connect(("10.9.0.2", 7100))
    for i in range(2): attempt("passed", send_fds, a, [b"x"], [s.fileno()])
    s.close(); plain.kill(); plain.wait()

for name in sys.argv[1:]:
    globals()[name]()
print("done", flush=True)
END
cat > $netns_tmp/kernel.py << 'END'
import time
from socket import *
s = socket(AF_INET, SOCK_DGRAM); s.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
s.bind(("10.9.0.1", 7777))
print("ready", flush=True)
time.sleep(60)
END
cat > $netns_tmp/listen.py << 'END'
import time
from socket import *
s = socket(); s.bind(("10.9.0.2", 7100)); s.listen(20)
print("ready", flush=True)
kept = []
while True:
    kept.append(s.accept())
END
netns_spawn $netns_tmp/kernel c "" python3 $netns_tmp/kernel.py || die "no holder of a port"
netns_spawn $netns_tmp/listen s "" python3 $netns_tmp/listen.py || die "no listener"

log=$netns_tmp/log
# run LIB-ENV... -- SITUATION...: $log gets the output; returns its status.
run() {
	local with=()

	while [[ $1 != -- ]]; do with+=("$1") && shift; done
	shift
	(
		vma_env=("${with[@]}")
		netns_exec c "$lib" 0-1023 python3 $netns_tmp/prog.py "$@"
	) > $log 2>&1
}

# counted WORDS: a line of the counters contains them.
counted() {
	grep -qE "VMA DEBUG: [0-9]+ sockets?: $1\$" $log || { tail -30 $log && false; }
}

says() {
	grep -qE "$1" $log || { tail -30 $log && false; }
}

run VMA_TRACELEVEL=debug -- undecided accelerated family no_route broadcast interface \
	port_failed shared_port option call stopped forked passed
for reason in 'not decided yet' accelerated 'the address family is not accelerated' \
	'there is no route' broadcast \
	'the interface cannot be accelerated' 'the interface could not be taken' \
	'other programs listen on the same address and port' \
	'an option is set that only the kernel serves' 'a call was made that only the kernel serves' \
	'it does not listen any more' 'the socket was inherited by a forked process' 'the socket was passed to another process'; do
	check "$reason" counted "$reason"
done
run VMA_TRACELEVEL=debug VMA_LOCAL=0 -- loopback
check "on this host" counted 'the address is on this host'
run VMA_TRACELEVEL=debug VMA_LOCAL=1 -- loopback
check "... where others may reach it through shared memory" counted 'accelerated, local'
run VMA_TRACELEVEL=warn -- passed_live
check "a connection is not passed to a program without the library" test "$(grep -c '^passed E.*NOTSUP' $log)" == 2
check "... which is reported once" test "$(grep -c 'is not sent to another process' $log)" == 1
run VMA_TRACELEVEL=debug VMA_OFFLOADED_SOCKETS=0 -- undecided
check "switched off" counted 'VMA_OFFLOADED_SOCKETS is 0'
run VMA_TRACELEVEL=debug -- no_resources
check "no descriptors" counted 'out of memory or descriptors'
check "... and the program continues" says '^done'

for mode in -2 -1 0 1; do
	run VMA_TRACELEVEL=debug VMA_EXCEPTION_HANDLING=$mode -- option live
	check "mode $mode: the socket falls back to the kernel" says '^option fine'
	check "... counted" counted 'an option is set that only the kernel serves'
	check "... a connection does not" says '^live ENOPROTOOPT'
	check "... and the kernel's errors come first" says '^bad EINVAL'
	level=DEBUG
	((mode < 1)) || level=ERROR
	check "... at level $level" says "VMA $level: fd .*option 4 of level 0.*only the kernel"
done
run VMA_TRACELEVEL=debug VMA_EXCEPTION_HANDLING=2 -- option live
check "mode 2: refused" says '^option ENOPROTOOPT'
check "... with an error" says 'VMA ERROR: fd .*option 4'
run VMA_TRACELEVEL=debug VMA_EXCEPTION_HANDLING=3 -- option
check "mode 3: aborted" test $? == 134
check "... with an error" says 'VMA ERROR: fd .*option 4'
run VMA_TRACELEVEL=warn VMA_EXCEPTION_HANDLING=-2 -- no_resources
check "mode -2: a failed start ends the program" test $? == 1
check "... before it continued" test "$(grep -c '^done' $log)" == 0
verdict
