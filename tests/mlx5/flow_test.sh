#!/bin/bash
# Which rules the card gets for which sockets, and their tags: VMA_TCP_3T_RULES, VMA_UDP_3T_RULES,
# VMA_ETH_MC_L2_ONLY_RULES, VMA_MC_FORCE_FLOWTAG.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
. tests/mlx5/card.sh

needs ethtool ping python3
probe=$(netns_find_probe) || exit 1
flows=$(find_program tests/mlx5/flows) || exit 1
card_start
with_card="$lib:$netns_tmp/shim.so"
log=$netns_tmp/log

# on_card [VARIABLE=VALUE...] KIND ARG...: a program of flows.c; $spawned is its process.
on_card() {
	local -a set=()

	while [[ $1 == *=* ]]; do
		set+=("$1")
		shift
	done
	netns_spawn $log s "$with_card" env "${card_vars[@]}" VMA_TRACELEVEL=debug "${set[@]}" "$flows" "$@"
}

# rules: those for the ports of this test, without the queue pair, sorted.
rules() {
	card_rules | sed 's/^rule of [^ ]* //' | grep -E ':7[0-9]{3} |\*:0 ' | sort
}

# rules_are LINE...: patterns for each of them.
rules_are() {
	local line n=0 have

	have=$(rules)
	[[ -n $have ]] && n=$(wc -l <<< "$have")
	((n == $#)) || {
		echo "$have"
		return 1
	}
	for line; do
		grep -qx -- "$line" <<< "$have" || {
			echo "$line is not in:" "$have"
			return 1
		}
	done
}

# peer CODE: Python at the kernel's end; `talk(socket, to)` wants an echo.
peer() {
	(netns_exec c "" 0-1023 timeout -s KILL 120 python3 - > $netns_tmp/peer 2>&1) << END && return
import os, socket, sys
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]) # nothing overtakes
def talk(s, to=None):
    s.settimeout(30)
    for n in range(5):
        s.sendto(b'%d' % n, to) if to else s.send(b'%d' % n)
        assert s.recv(100) == b'%d' % n
def udp(port=0):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('$netns_client', port))
    return s
def silent(s, to, heard):
    s.sendto(b'x', to)
    talk(heard, to) # answered later
    s.setblocking(False)
    try:
        s.recv(100)
    except (BlockingIOError, ConnectionRefusedError):
        return
    assert False, 'an answer'
$1
END
	cat $netns_tmp/peer
	return 1
}

server=$netns_server
kernel_saw() {
	netns_counters s UdpInDatagrams UdpNoPorts TcpPassiveOpens
}

# Two connections that stay open; the rules as long as they do.
conns() {
	peer "
a = [socket.create_connection(('$server', 7000)) for i in range(2)]
for n in range(3):
    for s in a:
        talk(s)
print('open', flush=True)
sys.stdin = open('$netns_tmp/go')
sys.stdin.read()
for s in a:
    talk(s)
"
}

# with_conns PATTERN...: the rules while the connections are open, and while they talk on.
with_conns() {
	local ok

	rm -f $netns_tmp/go
	mkfifo $netns_tmp/go
	: > $netns_tmp/peer
	conns &
	await 30 grep -q open $netns_tmp/peer
	rules_are "$@"
	ok=$?
	echo > $netns_tmp/go
	wait $! && ((!ok))
}

saw=$(kernel_saw)
listener="proto 6 to $server:7000 from \*:0 .* priority 4 tag 0"
check "a listener" on_card tcp $server 7000 || cat $log
check "... has a rule without a tag" rules_are "$listener"
check "its connections have rules of their own, with tags" with_conns "$listener" \
	"proto 6 to $server:7000 from $netns_client:[0-9]* .* priority 0 tag 1" \
	"proto 6 to $server:7000 from $netns_client:[0-9]* .* priority 0 tag 2"
check "... which end with them" await 30 rules_are "$listener"
check "... and tags are used again" with_conns "$listener" ".* priority 0 tag 1" ".* priority 0 tag 2"
netns_kill $spawned
check "VMA_TCP_3T_RULES=1" on_card VMA_TCP_3T_RULES=1 tcp $server 7000 || cat $log
check "... the listener's rule brings all" with_conns "$listener"
netns_kill $spawned

# A connected socket: the peer is heard, nobody else is.
heard="silent(udp(), ('$server', 7000), udp(7777))"
exact="proto 17 to $server:7000 from $netns_client:7777 .* priority 0 tag 1"
check "a connected socket" on_card udp $server 7000 $netns_client 7777 || cat $log
check "... has a rule for its port" rules_are "proto 17 to $server:7000 from \*:0 .* priority 4 tag 1"
check "... and hears its peer alone" peer "$heard"
netns_kill $spawned
check "VMA_UDP_3T_RULES=0" on_card VMA_UDP_3T_RULES=0 udp $server 7000 $netns_client 7777 || cat $log
check "... a rule for its peer" rules_are "$exact"
check "... is heard" peer "talk(udp(7777), ('$server', 7000))"
netns_kill $spawned
# A stranger's datagram is the kernel's, which tells that it has no such port.
saw=$(awk '{ $2++; print }' <<< "$saw")
check "the kernel saw the stranger's datagram, and nothing else" test "$saw" = "$(kernel_saw)"
check "others may have its port" on_card SHARED=1 udp $server 7000 $netns_client 7777 || cat $log
check "... a rule for its peer" rules_are "$exact"
netns_kill $spawned
# Two processes: the second one has a rule of its own, which is better.
check "a port with a rule" on_card udp $server 7000 $netns_client 7777 || cat $log
wide=$spawned
check "... of another address" on_card udp $server 7001 $netns_client 7777 || cat $log
check "... both hear their peer" peer "s = udp(7777); talk(s, ('$server', 7000)); talk(s, ('$server', 7001))"
netns_kill $spawned
netns_kill $wide

# Groups: .1.1.1 and 225.1.1.1 have one Ethernet address.
groups=(224.1.1.1 225.1.1.1 239.2.2.2)
hear="
s = udp()
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton('$netns_client'))
for n in range(3):
    talk(s, ('224.1.1.1', 7000)); talk(s, ('225.1.1.1', 7001)); talk(s, ('239.2.2.2', 7002))
"
one="mac 01:00:5e:01:01:01 priority 4"
other="mac 01:00:5e:02:02:02 priority 4"
check "three groups" on_card groups $server 7000 "${groups[@]}" || cat $log
check "... have a rule each, without a tag" rules_are "proto 17 to 224.1.1.1:7000 .* $one tag 0" \
	"proto 17 to 225.1.1.1:7001 .* $one tag 0" "proto 17 to 239.2.2.2:7002 .* $other tag 0"
check "... are heard" peer "$hear"
netns_kill $spawned
check "VMA_ETH_MC_L2_ONLY_RULES=1" on_card VMA_ETH_MC_L2_ONLY_RULES=1 groups $server 7000 "${groups[@]}" || cat $log
check "... a rule for each Ethernet address" rules_are "proto 0 to \*:0 from \*:0 $one tag 0" \
	"proto 0 to \*:0 from \*:0 $other tag 0"
check "... are heard" peer "$hear"
netns_kill $spawned
check "VMA_MC_FORCE_FLOWTAG=1" on_card VMA_MC_FORCE_FLOWTAG=1 groups $server 7000 "${groups[@]}" || cat $log
check "... rules with tags" rules_are ".* $one tag [1-9][0-9]*" ".* $one tag [1-9][0-9]*" ".* $other tag [1-9][0-9]*"
check "... are heard" peer "$hear"
netns_kill $spawned
check "nothing was violated" test "$(card_counter violations)" = 0
verdict
