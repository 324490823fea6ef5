#!/bin/bash
# Connections at a port that a server takes over, from before; and connections that arrive while the
# server opens the interface.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	two clients               a server of the kernel that let go of the port; then one whose
#				  listen() waits: we have the lock on the names of port groups
#
#	early_test.sh [-6]	over IPv6: fd00:9::1 and fd00:9::2
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

netns_pair ""
server_addr=$netns_server
connections=/proc/net/tcp
if [[ ${1:-} == -6 ]]; then
	export EARLY_FAMILY=6
	server_addr=fd00:9::2
	connections=/proc/net/tcp6
	netns_pair_ip6 ""
fi
mkdir -m 700 /run/libvma
(umask 077 && : > /run/libvma/names)
vma_env=(VMA_TRACELEVEL=debug)

is() {
	[[ $1 == "$2" ]] && return
	echo "     $1, not $2"
	return 1
}

# client NAME [SOURCE-PORT]: $netns_tmp/NAME gets its output; its input is descriptor $NAME.
client() {
	local fd

	mkfifo "$netns_tmp/$1.in"
	netns_exec c "" 0-1023 python3 tests/scenario/tcp/early.py talk $server_addr 7000 "${2:-0}" \
		> "$netns_tmp/$1" 2>&1 < "$netns_tmp/$1.in" &
	exec {fd}> "$netns_tmp/$1.in"
	printf -v "$1" %d "$fd"
	printf -v "$1_pid" %d $!
}

is_connected() {
	local pid=$1_pid

	await 30 is_ready "$netns_tmp/$1" "${!pid}" && ! is_gone "${!pid}"
}

# Its SYN is in transit, and unanswered.
is_connecting() {
	in_ns c awk '$4 == "02" { found = 1 } END { exit !found }' $connections
}

# says NAME TEXT: sends the text, and gets it back.
says() {
	echo "$2" >&"${!1}"
	await 30 grep -q "^$2$" "$netns_tmp/$1" || ! cat "$netns_tmp/$1"
}

opens() {
	netns_counters s TcpPassiveOpens
}

marked() {
	netns_run s "" python3 tests/scenario/tcp/early.py marked $server
}

not_marked() {
	! marked
}

# leave: a server of the kernel, for one connection; $leaver is its process.
leave() {
	netns_exec s "" 0-1023 python3 tests/scenario/tcp/early.py leave 7000 > $netns_tmp/leave 2>&1 < /dev/null &
	leaver=$!
	await 30 listens s 7000 || die "no server: $(cat $netns_tmp/leave)"
}

is_waiting() {
	in_ns s awk '$4 == "06" { found = 1 } END { exit !found }' $connections
}

leave
client past 40001
is_connected past
echo bye >&"$past"
await 30 is_gone $leaver
netns_kill $past_pid
check "a connection that the kernel's server has closed first" await 30 is_waiting
leave
client first
check "another one" is_connected first
await 30 is_ready $netns_tmp/leave $leaver
before=$(opens)

python3 tests/scenario/tcp/early.py lock /run/libvma/names > $netns_tmp/names &
names=$!
check "the name of the interface is locked" await 30 grep -q locked $netns_tmp/names
netns_exec s "$lib" 0-1023 python3 tests/scenario/tcp/early.py serve 7000 > $netns_tmp/serve 2>&1 < /dev/null &
server=$!
# It waits for at most two seconds: the process is stopped before.
check "a server takes the port" await 30 listens s 7000
[[ -z $lib ]] || kill -STOP $server
[[ -z $lib ]] || check "... while it does not have the interface" eval '! netns_has_xdp s v0'
check "a segment of a connection that nobody has is answered" \
	is "$(netns_run c "" python3 tests/scenario/tcp/early.py stray $server_addr 7000)" reset
client second
[[ -z $lib ]] || check "a new client is not refused" await 30 is_connecting
kill $names
check "the name is free" await 30 grep -q released $netns_tmp/names
kill -CONT $server
check "the server continues" await 30 is_ready $netns_tmp/serve $server
[[ -z $lib ]] || check "... it has the interface" netns_has_xdp s v0
check "the waiting client is served" is_connected second
check "... with data" says second two
if [[ -n $lib ]]; then
	check "... its SYN was kept" grep -q ' [1-9][0-9]* SYNs arrived' $netns_tmp/serve
	check "... the kernel did not accept it" is "$(opens)" "$before"
	check "the library knows that the kernel has the port, too" marked
fi
client past_again 40001
check "a client from the port of the closed connection" is_connected past_again
[[ -z $lib ]] || check "... is not served by the kernel" is "$(opens)" "$before"
check "the older connection continues" says first one
netns_kill $first_pid
[[ -z $lib ]] || check "... until it ends" await 30 not_marked
check "the later one continues" says second three
netns_kill $second_pid
verdict
