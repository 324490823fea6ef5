#!/bin/bash
# Strict: what should be accelerated and cannot be fails, and says why; what a rule gives to the
# kernel, and what stays on this host, goes on. Without it: one line at exit.
#
#	c  v0 10.9.0.1 ---------------------- v0 10.9.0.2  s
#	   j0 10.9.1.1 -- MTU 16000, too big - j0 10.9.1.2
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

probe=$(netns_find_probe) || exit 1
use=tests/scenario/rules/use.py
conf=$netns_tmp/libvma.conf
log=$netns_tmp/log
netns_pair ""
ip link add j0 netns c mtu 16000 type veth peer name j0 netns s mtu 16000
netns_up c j0 10.9.1.1
netns_up s j0 10.9.1.2
await 30 netns_is_up c j0 && await 30 netns_is_up s j0 || die "the link stays down"
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"

# run [VARIABLE=VALUE...] STEP...: with strict, unless a variable says otherwise.
run() {
	vma_env=(VMA_TRACELEVEL=info "VMA_CONFIG_FILE=$conf" VMA_STRICT=1 VMA_LOCAL=1)
	while [[ $1 == *=* ]]; do vma_env+=("$1") && shift; done
	sent=$(netns_counters c UdpOutDatagrams TcpOutSegs)
	netns_run c "$lib" python3 $use "$@" > $log
	sent_now=$(netns_counters c UdpOutDatagrams TcpOutSegs)
}

says() {
	grep -qE "$1" $log || { tail -30 $log && false; }
}
times() {
	[[ $(grep -cE "$2" $log) == "$1" ]] || { grep VMA $log && false; }
}
quiet() {
	[[ $sent == "$sent_now" ]] || { echo "$sent, $sent_now" && false; }
}

: > $conf
run slow_tcp
check "connect fails" says '^connect EOPNOTSUPP'
check "... without blocking, too" says '^connect at once EOPNOTSUPP'
check "... and can go elsewhere" says '^connect elsewhere fine'
check "... the kernel sent nothing" quiet
check "... the reason is said, for each socket once" times 2 \
	'VMA ERROR: fd [0-9]+: the interface could not be taken; it must be accelerated \(VMA_STRICT\)'
run slow_send
check "send fails, each time" times 3 '^send EOPNOTSUPP'
check "... the reason is said once" times 1 'VMA ERROR: fd'
check "... and the socket goes on" says '^send elsewhere fine'
check "... the kernel sent nothing" quiet
run slow_connect
check "connect of datagrams fails" says '^connect EOPNOTSUPP'
check "... and the socket is not connected" says '^not connected EDESTADDRREQ'
check "... until it is" says '^connect elsewhere fine'
run slow_bind
check "bind of datagrams fails" says '^bind EOPNOTSUPP'
check "... elsewhere not" says '^bind elsewhere fine'
run slow_listen
check "bind of TCP does not decide" says '^tcp bind fine'
check "listen fails" says '^listen EOPNOTSUPP'
check "... nobody listens" says '^nobody listens'
run slow_join
check "joining a group fails" says '^join EOPNOTSUPP'
check "... the group was left" says '^left EADDRNOTAVAIL'
check "... bind after it fails" says '^bind to the group EOPNOTSUPP'
in_ns c sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.j0.disable_ipv6=0
run slow_join6
check "joining a group of IPv6 fails" says '^join EOPNOTSUPP'
check "... the group was left" says '^left EADDRNOTAVAIL'
in_ns c sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.j0.disable_ipv6=1
run option
check "setsockopt fails" says '^option EOPNOTSUPP'
run special
check "a control message that only the kernel knows: the send fails, each time" times 2 '^retopts EOPNOTSUPP'
check "... the reason is said once" times 1 'VMA ERROR: fd [0-9]+: a call was made that only the kernel serves'
check "... others work" says '^ttl fine'
check "... to this host, too" says '^retopts on loopback fine'
check "urgent data: as the kernel" says '^urgent EOPNOTSUPP'
check "... and the socket goes on" says '^plain fine'
run VMA_STRICT=0 special
check "... without strict the kernel sends it" times 2 '^retopts fine'
run families
check "AF_INET6 is made" says '^inet6 fine'
check "... its connect to a link-local address without interface: as the kernel" says '^inet6 connect EINVAL'
check "... a send there fails" says '^inet6 send EOPNOTSUPP'
check "... one to a group of the link, too" says '^inet6 to group EOPNOTSUPP'
check "... a bind to a group does not: it receives nothing yet" says '^inet6 bind fine'
check "AF_UNIX is not affected" says '^unix fine'
run no_route
check "no route: the kernel's errno" times 2 'without route ENETUNREACH'
run loopback
check "loopback is not affected" times 8 ' fine$'
run udp connected tcp 10.9.0.2
check "what is accelerated works" times 5 ' fine$'
check "... and nothing is said" times 0 'VMA (ERROR|WARNING)'
run anywhere
check "one interface is enough for 0.0.0.0" times 2 ' anywhere fine'
check "... that the kernel serves the other one is said, once" times 1 \
	'VMA WARNING: j0: the interface could not be taken; .*VMA_STRICT.*"interface deny j0"'
run device
check "... nor what SO_BINDTODEVICE leaves out" eval 'says "^bind on v0 fine" && times 0 "must be accelerated"'
run VMA_STRICT=0 anywhere
check "... without strict in general words" times 0 'must be accelerated'
echo 'interface deny j0' > $conf
run anywhere
check "... and not if a rule denies it" times 0 'VMA WARNING'
printf '%s\n' 'must udp_receiver *:6008' > $conf
run VMA_STRICT=0 anywhere
check "... a rule must warns, too" times 1 'VMA WARNING: j0: .*\(must in .*libvma.conf\)'
: > $conf
run VMA_OFFLOADED_SOCKETS=0 tcp 10.9.1.2 families
check "nothing is accelerated: nothing is strict" times 5 ' fine$'

around=(setpriv --bounding-set=-net_admin,-net_raw,-bpf,-sys_admin)
run_bare() {
	vma_env=(VMA_TRACELEVEL=info "VMA_CONFIG_FILE=$conf" VMA_STRICT=1 VMA_LOCAL=1)
	(netns_exec c "$lib" 0-1023 python3 $use "$@" > $log 2>&1)
}
run_bare anywhere slow_tcp
check "no privileges: listen fails" says '^listen anywhere EOPNOTSUPP'
check "... connect, too" says '^connect elsewhere EOPNOTSUPP'
around=()

printf '%s\n' 'use os tcp_client 10.9.1.0/24:*' 'use os udp_sender 10.9.1.2:*' 'use os udp_receiver 10.9.1.1:*' \
	'use os tcp_server 10.9.1.1:*' > $conf
run tcp 10.9.1.2 slow_send slow_bind slow_listen
check "what rules give to the kernel is not affected" times 0 EOPNOTSUPP
check "... it works" says '^tcp 10.9.1.2 fine'
check "... by the kernel" test "$sent" != "$sent_now"
echo 'interface deny j0' > $conf
run tcp 10.9.1.2 slow_send
check "nor what goes by an interface that is denied" times 0 EOPNOTSUPP

# must: without VMA_STRICT, where a rule says so.
printf '%s\n' 'must tcp_client 10.9.1.2:*' 'must udp_receiver *:6002' > $conf
run VMA_STRICT=0 slow_tcp slow_send slow_bind slow_listen families
check "must: connect fails" says '^connect EOPNOTSUPP'
check "... bind fails" says '^bind EOPNOTSUPP'
check "... with its reason" says 'it must be accelerated \(must in .*libvma.conf\)'
check "... nothing else fails" times 3 EOPNOTSUPP
check "... other addresses are accelerated" says '^connect elsewhere fine'
check "... other roles fall back" says '^listen fine'

: > $conf
run VMA_STRICT=0 slow_bind slow_listen udp
check "without strict nothing fails" times 0 EOPNOTSUPP
check "... one line at exit" times 1 \
	'VMA INFO: 2 sockets were not accelerated \(2: the interface could not be taken\)'
run VMA_STRICT=0 slow_send option
check "... with each reason" times 1 \
	'VMA INFO: 1 socket was not accelerated \(1: an option is set that only the kernel serves\)'
run VMA_STRICT=0 udp connected tcp 10.9.0.2 loopback no_route anywhere
check "... none if nothing fell back" times 0 'VMA INFO: .* not accelerated'
run VMA_STRICT=0 VMA_OFFLOADED_SOCKETS=0 tcp 10.9.1.2
check "... nor if nothing was to be accelerated" times 0 'VMA INFO: .* not accelerated'
echo 'use os tcp_client *:*' > $conf
run VMA_STRICT=0 tcp 10.9.1.2
check "... nor if a rule said so" times 0 'VMA INFO: .* not accelerated'
verdict
