#!/bin/bash
# Connections on one host go on in other processes, and several processes accept them.
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

needs /usr/bin/python3
[[ -n $lib ]] || die "it needs the library"
netns_new s
export VMA_LOCAL=1
port=7000
# Python writes what it compiles beside its modules.
cp tests/scenario/local/{local_fork,streams}.py $netns_tmp || die "no copy"
ends() { echo /usr/bin/python3 $netns_tmp/local_fork.py "$@"; }
segments() { in_ns s awk '/^Tcp: [0-9]/ { print $11 }' /proc/net/snmp; }

# starts WHAT...: a server on another port.
starts() {
	port=$((port + 1))
	netns_spawn $netns_tmp/server.$port s "$lib" $(ends "$1" $port "${@:2}") || die "no server: $(< $netns_tmp/server.$port)"
	server=$spawned
}
says() {
	netns_run s "$lib" timeout 60 $(ends client $port "$1") > $netns_tmp/said
}
said() {
	[[ $(tr '\n' ' ' < $netns_tmp/said) == "$1 " ]] || { echo "     it says: $(< $netns_tmp/said)"; return 1; }
}

before=$(segments)
starts serve
says child
check "a child has the connection, its parent has closed it" said "100 b''"
says turns
check "parent and child in turns" said 50
says both
check "both ends move" said "child 50 20"
says killed
check "kill -9 of the child that has it: the connection ends" said "ended soon"
says orphan
check "kill -9 of the process that had it before: the connection goes on" said 100
check "the kernel saw no segment" test "$(segments)" == "$before"
for _ in 1 2 3 4 5; do says child; done
check "... and what was killed does not disturb the next ones" said "100 b''"
says brief
check "many connections that end soon in children" said 40
check "... and the kernel serves the later ones of such a listener" test "$(segments)" -gt "$before"
says stop
check "the server has ended in order" await 30 is_gone $server
before=$(segments)
starts prefork 3
says pids
check "each of three processes that accept gets connections" said "60 3"
check "... and the kernel saw no segment of these" test "$(segments)" == "$before"
kill -KILL $server
verdict
