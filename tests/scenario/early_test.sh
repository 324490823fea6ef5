#!/bin/bash
# A server is not refused because its interface takes long to open: what connects meanwhile
# is the kernel's, from the beginning to the end.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	two clients               a server whose listen() waits: we have the lock on the
#				  names of port groups
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

netns_pair ""
mkdir -m 700 /run/libvma
(umask 077 && : > /run/libvma/names)

is() {
	[[ $1 == "$2" ]] && return
	echo "     $1, not $2"
	return 1
}

# client NAME: $netns_tmp/NAME says what it says; its input is descriptor $NAME.
client() {
	local fd

	mkfifo "$netns_tmp/$1.in"
	netns_exec c "" 0-1023 python3 tests/scenario/early.py talk $netns_server 7000 \
		> "$netns_tmp/$1" 2>&1 < "$netns_tmp/$1.in" &
	exec {fd}> "$netns_tmp/$1.in"
	printf -v "$1" %d "$fd"
	printf -v "$1_pid" %d $!
	await 10 is_ready "$netns_tmp/$1" $! && ! is_gone $!
}

# says NAME TEXT: it comes back.
says() {
	echo "$2" >&"${!1}"
	await 10 grep -q "^$2$" "$netns_tmp/$1" || ! cat "$netns_tmp/$1"
}


opens() {
	netns_counters s TcpPassiveOpens
}

marked() {
	netns_run s "" python3 tests/scenario/early.py marked $server
}

not_marked() {
	! marked
}

exec {names}< /run/libvma/names
flock $names
netns_exec s "$lib" 0-1023 python3 tests/scenario/early.py serve 7000 > $netns_tmp/serve 2>&1 < /dev/null &
server=$!
# The server waits for two seconds at most: it is stopped before.
check "the kernel listens, while the interface is not opened" await 10 listens s 7000
kill -STOP $server
check "it accepts" client first
[[ -z $lib ]] || check "... the interface is not ours" eval '! netns_has_xdp s v0'
flock -u $names
kill -CONT $server
check "the server goes on" await 10 is_ready $netns_tmp/serve $server
[[ -z $lib ]] || check "... the interface is ours" netns_has_xdp s v0
check "the early connection is served" says first one
before=$(opens)
check "a later one as well" client second
check "... is served" says second two
[[ -z $lib ]] || check "... not by the kernel" is "$(opens)" $before
check "both go on" says first three
check "... with data" says second four
[[ -z $lib ]] || check "the port is known to be the kernel's, too" marked
netns_kill $first_pid
[[ -z $lib ]] || check "... until the kernel has no connections there" await 30 not_marked
check "the later one goes on" says second five
netns_kill $second_pid
verdict
