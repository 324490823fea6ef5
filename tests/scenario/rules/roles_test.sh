#!/bin/bash
# What libvma.conf gives to the kernel in each role goes through it, and nothing else: its own
# counters say so.
#
#	c  v0 10.9.0.1, with the library ---------- v0 10.9.0.2, without  s
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
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"
vma_env=(VMA_TRACELEVEL=debug "VMA_CONFIG_FILE=$conf")

# conf LINE...: the file.
conf() {
	printf '%s\n' "$@" > $conf
	echo "# $*"
}

# uses STEP...: use.py does it; $udp_in, $udp_out, $tcp_in, $tcp_out: how many of it the kernel saw.
uses() {
	local before after

	read -ra before < <(netns_counters c UdpInDatagrams UdpOutDatagrams TcpInSegs TcpOutSegs)
	netns_run c "$lib" python3 $use "$@" > $log
	read -ra after < <(netns_counters c UdpInDatagrams UdpOutDatagrams TcpInSegs TcpOutSegs)
	udp_in=$((after[0] - before[0])) udp_out=$((after[1] - before[1]))
	tcp_in=$((after[2] - before[2])) tcp_out=$((after[3] - before[3]))
}

says() {
	grep -qE "$1" $log || { tail -30 $log && false; }
}

# seen IN OUT: the datagrams that the kernel saw.
seen() {
	[[ $udp_in == "$1" && $udp_out == "$2" ]] || { echo "in $udp_in, out $udp_out" && tail -30 $log && false; }
}

conf '# nothing'
uses udp connected tcp 10.9.0.2
check "no rule: everything works" says '^tcp 10.9.0.2 fine'
check "... past the kernel" test "$udp_in $udp_out $tcp_in $tcp_out" == "0 0 0 0"

for rule in 'udp_receiver *:6000' 'udp_receiver 10.9.0.0/24:5999-6001'; do
	conf "use os $rule"
	uses udp
	check "$rule: works" says '^udp fine'
	check "... the kernel receives, and does not send" seen 20 0
	check "... for this rule" says "libvma.conf:1 says os as udp_receiver"
done
conf 'use vma udp_receiver 10.9.0.1:6000' 'use os udp_receiver *:*'
uses udp
check "udp_receiver: the first rule decides" seen 0 0
check "... and works" says '^udp fine'

conf 'use os udp_sender 10.9.0.2:7000'
uses udp
check "udp_sender: works" says '^udp fine'
check "... the kernel sends, and does not receive" seen 0 20
conf 'use vma udp_sender 10.9.0.2:7000' 'use os udp_sender *:*'
uses udp
check "udp_sender: the first rule decides" seen 0 0
conf 'use os udp_sender *:*' 'use os udp_receiver *:*'
uses udp
check "udp_sender and udp_receiver: the kernel does both" seen 20 20

conf 'use os udp_connect *:7000'
uses connected udp
check "udp_connect: works" says '^connected fine'
check "... the kernel serves what is connected, and nothing else" seen 20 20
conf 'use os udp_connect *:7000:10.1.0.0/16:*' 'use vma udp_connect 10.9.0.2:*:*:*' 'use os udp_connect *:*'
uses connected
check "udp_connect: the first rule decides" seen 0 0

# The group: the peer sends once we have joined.
group() {
	(uses group && echo "$udp_in" > $netns_tmp/udp_in) &
	await 30 grep -q joined $log || die "does not join"
	netns_run s "" python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(20): s.sendto(b"x", ("224.9.9.9", 6001))'
	wait $!
	udp_in=$(< $netns_tmp/udp_in)
}
rm -f $log
conf 'use os udp_receiver *:6002'
group
check "udp_receiver of a group: works" says '^group fine'
check "... past the kernel" test "$udp_in" == 0
rm -f $log
conf 'use os udp_receiver 224.0.0.0/4:6001'
group
check "udp_receiver of a group: os works" says '^group fine'
check "... by the kernel" test "$udp_in" == 20

conf 'use os tcp_client 10.9.0.0/24:7000'
uses tcp 10.9.0.2
check "tcp_client: works" says '^tcp 10.9.0.2 fine'
check "... by the kernel" test $tcp_in -ge 2 -a $tcp_out -ge 2
conf 'use vma tcp_client 10.9.0.0/24:*:*:*' 'use os tcp_client *:*'
uses tcp 10.9.0.2
check "tcp_client: the first rule decides" test "$tcp_in $tcp_out" == "0 0"
check "... and works" says '^tcp 10.9.0.2 fine'

# Accepted connections follow their listener.
server() {
	local before

	before=$(netns_counters c TcpInSegs)
	netns_spawn $netns_tmp/server c "$lib" python3 $use server 7001 || die "no server of ours"
	netns_run s "" "$probe" ask tcp 10.9.0.1 7001 10 > $log
	tcp_in=$(($(netns_counters c TcpInSegs) - before))
	netns_kill $spawned
}
conf 'use os tcp_client *:*'
server
check "tcp_server: works" says 'answers$'
check "... past the kernel" test $tcp_in == 0
conf 'use os tcp_server *:7000-7001' 'use vma tcp_server *:*'
server
check "tcp_server: os works" says 'answers$'
check "... by the kernel" test $tcp_in -ge 10

# Programs and ids.
conf 'application-id pyth?n* B1' 'use os udp_receiver *:*' 'application-id * *' 'use os udp_sender *:*'
uses udp
check "another id: the second block" seen 0 20
vma_env+=(VMA_APPLICATION_ID=B1)
uses udp
check "this id: the first block alone" seen 20 0
conf 'application-id ruby B1' 'use os udp_receiver *:*'
uses udp
check "another program: no rule" seen 0 0
conf 'application-id * B2' 'use os udp_receiver *:*'
uses udp
check "an id of no block: a warning" says 'VMA WARNING: VMA_APPLICATION_ID=B1: no application-id of .* has it'
verdict
