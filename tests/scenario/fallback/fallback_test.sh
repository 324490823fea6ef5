#!/bin/bash
# The kernel serves what cannot be accelerated, with one warning that says why, or none if there is
# no reason to warn.
#
#	c  v0 10.9.0.1 ---------------------- v0 10.9.0.2  s
#	   j0 10.9.1.1 -- MTU 16000, too big - j0 10.9.1.2, for a while
#	   no default route
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
cp "$probe" $netns_tmp/probe # any user can execute it there
probe=$netns_tmp/probe
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"

# warned LOG COUNT [WORDS]: there are COUNT warnings, and one of them contains WORDS.
warned() {
	[[ -n $lib ]] || return 0
	[[ $(warnings "$1") == "$2" ]] && grep -q "${3:-}" "$1" && return
	cat "$1"
	return 1
}

# lacks LOG: one line says that only connections on this host are accelerated, and why.
lacks() {
	[[ -n $lib ]] || return 0
	[[ $(warnings "$1") == 0 && $(grep -c 'VMA INFO: only connections on this host are accelerated: .*CAP_NET_RAW' "$1") == 1 ]] && return
	cat "$1"
	return 1
}

# asks LOG NAMESPACE ARG...: `probe ask` with the library gets its answers in the namespace.
asks() {
	netns_run "$2" "$lib" "${before[@]}" "$probe" ask "${@:3}" > "$1"
	grep -q 'answers$' "$1" && return
	cat "$1"
	return 1
}

# same_errors ARG...: `probe errors` prints the same with and without the library.
same_errors() {
	netns_run c "" "$probe" errors "$@" > $netns_tmp/errors.kernel
	netns_run c "$lib" "$probe" errors "$@" > $netns_tmp/errors
	diff $netns_tmp/errors.kernel $netns_tmp/errors && ! grep -q 'not accelerated' $netns_tmp/errors
}

log=$netns_tmp/log
before=()
traced=("${vma_env[@]}")
for protocol in udp tcp; do
	check "$protocol without warnings" asks $log c $protocol 10.9.0.2 7000 10
	check "... none" warned $log 0

	for privileges in "--bounding-set=-net_admin,-net_raw,-bpf,-sys_admin" "--reuid 65534 --regid 65534 --clear-groups"; do
		before=(setpriv $privileges)
		vma_env=("${traced[@]}" VMA_LOCAL=0)
		check "$protocol, ${before[*]}" asks $log c $protocol 10.9.0.2 7000 10
		check "... one warning" warned $log 1 CAP_NET_ADMIN
		vma_env=("${traced[@]}")
		# A program with the library that setpriv executes is quieter: setpriv has none.
		before+=(env LD_PRELOAD="$lib" VMA_LOCAL=1 VMA_TRACELEVEL=info)
		lib="" check "... where connections on this host are accelerated" asks $log c $protocol 10.9.0.2 7000 10
		check "... one line, no warning" lacks $log
	done
	caps=+net_admin,+net_raw,+bpf,+ipc_lock
	before=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=$caps --ambient-caps=$caps)
	saw=$(netns_counters c UdpInDatagrams TcpInSegs)
	check "$protocol of another user with capabilities" asks $log c $protocol 10.9.0.2 7000 10
	check "... no warning" warned $log 0
	[[ -z $lib ]] || check "... bypasses the kernel" test "$saw" = "$(netns_counters c UdpInDatagrams TcpInSegs)"
	before=()

	check "$protocol over loopback" asks $log s $protocol 127.0.0.1 7000 10
	check "... no warning" warned $log 0
	check "$protocol to an own address" asks $log s $protocol 10.9.0.2 7000 10
	check "... no warning" warned $log 0

	check "$protocol without a route: the kernel's errors" same_errors $protocol 192.0.2.1 7000
	check "$protocol to a closed port: the kernel's errors" same_errors $protocol 10.9.0.2 7999
	check "$protocol to a closed port here: the kernel's errors" same_errors $protocol 127.0.0.1 7999
done

# An interface that cannot be accelerated.
ip link add j0 netns c mtu 16000 type veth peer name j0 netns s mtu 16000
netns_up c j0 10.9.1.1
netns_up s j0 10.9.1.2
await 30 netns_is_up c j0 && await 30 netns_is_up s j0 || die "the link stays down"
for protocol in udp tcp; do
	check "$protocol over an interface that cannot be accelerated" asks $log c $protocol 10.9.1.2 7000 10
	check "... one warning" warned $log 1 MTU
	check "$protocol in parallel" asks $log c $protocol 10.9.0.2 7000 10
done
ip -n c link del j0

# A process that has changed its user accelerates nothing, wherever the peer is.
cat > $netns_tmp/changes.py << 'END'
import os
from socket import *
here, there = socket(AF_INET, SOCK_DGRAM), socket(AF_INET, SOCK_DGRAM)
here.bind(("127.0.0.1", 7002))
os.setresuid(65534, 65534, 65534)
there.sendto(b"x", ("10.9.0.2", 9))
END
vma_env+=(VMA_LOCAL=1)
netns_run c "$lib" python3 $netns_tmp/changes.py > $log
check "a process that changes its user: one warning" warned $log 1 CAP_NET_ADMIN
vma_env=("${traced[@]}")

# More processes on the same interface; they do not disturb the first one.
check "a first process" netns_spawn $netns_tmp/first c "$lib" "$probe" serve udp:7001:recv tcp:7001:recv
caps=+net_admin,+net_raw,+bpf,+ipc_lock
for protocol in udp tcp; do
	before_first=$(netns_counters c UdpInDatagrams TcpInSegs)
	netns_run s "" "$probe" ask $protocol 10.9.0.1 7001 10 > $log
	check "$protocol to the first process" grep -q answers $log
	check "$protocol of a second process" asks $log c $protocol 10.9.0.2 7000 10
	check "... no warning" warned $log 0
	[[ -z $lib ]] || check "... both bypass the kernel" \
		test "$before_first" = "$(netns_counters c UdpInDatagrams TcpInSegs)"
	before=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=$caps --ambient-caps=$caps)
	check "$protocol of another user's process" asks $log c $protocol 10.9.0.2 7000 10
	before=()
	check "... one warning" warned $log 1 "another accelerated"
	before_first=$(netns_counters c UdpInDatagrams TcpInSegs)
	netns_run s "" "$probe" ask $protocol 10.9.0.1 7001 10 > $log
	check "$protocol to the first process still" grep -q answers $log
	[[ -z $lib ]] || check "... bypasses the kernel" \
		test "$before_first" = "$(netns_counters c UdpInDatagrams TcpInSegs)"
done
check "the first process warned of nothing" warned $netns_tmp/first 0

# Acceleration is switched off.
vma_env+=(VMA_OFFLOADED_SOCKETS=0)
netns_kill $spawned
for protocol in udp tcp; do
	check "$protocol with VMA_OFFLOADED_SOCKETS=0" asks $log c $protocol 10.9.0.2 7000 10
	check "... no warning" warned $log 0
done
verdict
