#!/bin/bash
# Processes use the same ports, one after the other, while the server, in the kernel, has the last
# connections of these ports in TIME_WAIT: the first SYN of each is accepted.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	3 processes, 30 connections each          closes first
#	80 ports, every other one at first
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

each=30
netns_pair ""
in_ns c sh -c 'echo 40000 40079 > /proc/sys/net/ipv4/ip_local_port_range'
(netns_exec s "" 0-1023 python3 tests/scenario/tcp/restart.py serve 7000) > $netns_tmp/server 2>&1 &
await 30 in_ns c bash -c 'exec 3<> /dev/tcp/10.9.0.2/7000' || die "no server: $(cat $netns_tmp/server)"

is() {
	[[ $1 == "$2" ]] && return
	echo "     $1, not $2"
	return 1
}

before=$(netns_counters c TcpActiveOpens)
for process in 1 2 3; do
	netns_run c "$lib" python3 tests/scenario/tcp/restart.py connect $netns_server 7000 $each \
		> $netns_tmp/client 2>&1
	read -r again < $netns_tmp/client
	check "process $process sends nothing again" is "$again" 0 || cat $netns_tmp/client
done
if [[ -n $lib ]]; then
	check "the kernel saw none of them" is "$(netns_counters c TcpActiveOpens)" $before
	check "no other user can read the secret" is "$(stat -c %a /run/libvma /run/libvma/state-*)" "700
600"
fi
verdict
