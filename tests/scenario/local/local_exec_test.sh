#!/bin/bash
# Connections on one host whose process executes a program go on in that program.
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

needs /usr/bin/python3
[[ -n $lib ]] || die "it needs the library"
netns_new s
export VMA_LOCAL=1
port=7000
# Where any user can read it.
cp tests/scenario/local/{local_exec,streams}.py $netns_tmp && chmod 644 $netns_tmp/*.py || die "no copy"
ends() { echo /usr/bin/python3 $netns_tmp/local_exec.py "$@"; }
segments() { in_ns s awk '/^Tcp: [0-9]/ { print $11 }' /proc/net/snmp; }

# asks WORD ARGUMENT...: what the client of a new server says.
asks() {
	port=$((port + 1))
	netns_spawn $netns_tmp/server s "$lib" $(ends serve $port "$1") || die "no server: $(< $netns_tmp/server)"
	server=$spawned
	says "$1" $server
}
says() {
	netns_run s "$lib" timeout 60 $(ends client $port "$@") > $netns_tmp/said
}
is() {
	[[ $(tr '\n' ' ' < "$1") == "$2 " ]] || { echo "     it says: $(< "$1")"; return 1; }
}
said() { is $netns_tmp/said "$1"; }
ended() { await 30 is_gone $server; }
stops() {
	kill -KILL $server
	ended
}

before=$(segments)
asks unread
check "unread bytes stay in order, both go on, with the same descriptor" said "True 1 1 1 1 100 b''"
check "... and the program ends" ended
asks chain
check "twenty programs in turn, without a descriptor more" said "21 True (b'', 'end')"
asks both
check "both ends execute a program" said 100
port=$((port + 1))
says itself
check "both ends are in one process" said "b'unread\\n' 100"
asks copies
check "two descriptors of one connection" said 10
asks closes
check "exec closes it: a normal close, or a reset if bytes are unread" said "(b'written', 'end') (b'written', 'reset') 10 broken"
asks fails
check "an exec that fails changes nothing" said "b'1\\n' True 10 b'to the thread\\n' 10 (b'', 'reset')"
asks children
check "programs of children leave it alone" said "[0, 1, 2, 3, 4] 10"
asks killed
check "the peer is killed: the program reads what had arrived, and gets a reset" await 10 is $netns_tmp/server "ready (b'unread', 'reset')"
stops
asks exits
check "the program ends at once: a normal close" said "(b'written', 'end')"
asks many
check "200 connections" said 200
check "the kernel saw no segment" test "$(segments)" == "$before"
relays() { pgrep -x vma-relay; }
# The same through the kernel: it says what is right.
for word in dies plain stdio refused restarts shared sharedplain between waiting waitingplain; do
	asks $word
	mv $netns_tmp/said $netns_tmp/said.$word
	[[ $word != stdio ]] || stops
	port=$((port + 1))
	netns_spawn $netns_tmp/server s "" $(ends serve $port $word) || die "no server"
	server=$spawned
	netns_run s "" timeout 60 $(ends client $port $word) > $netns_tmp/kernel.$word
	[[ $word != stdio ]] || stops
done
check "a program without the library goes on; what exec closes ends" cmp $netns_tmp/said.plain $netns_tmp/kernel.plain
check "... with the names and options that the connection had" is $netns_tmp/kernel.plain \
	"0 1 (b'written', 'end') soon ports True b'1\\n' 10 (b'', 'end')"
check "an inetd: each end as by the kernel, and no child more" cmp $netns_tmp/said.stdio $netns_tmp/kernel.stdio
head -n 3 $netns_tmp/kernel.stdio > $netns_tmp/first
check "... which echo, answer, and are killed" is $netns_tmp/first \
	"(b'text\\n', 'end') (b'got text\\n', 'end') (b'', 'reset')"
check "an exec that fails leaves it usable" cmp $netns_tmp/said.refused $netns_tmp/kernel.refused
check "... in the same process" is $netns_tmp/kernel.refused "b'1\\n' 10 (b'', 'end')"
check "the client's end leaves the server's port free" is $netns_tmp/said.restarts bound
check "... as by the kernel" is $netns_tmp/kernel.restarts bound
check "a program that cannot begin: its peer sees the end at once" is $netns_tmp/said.dies soon
check "... as by the kernel" is $netns_tmp/kernel.dies soon
both="b'child\n' 10 b'read\n' b'execute\n' b'program 1\n' 10 b'child again\n' 10 b'child\n' 10 (b'', 'end') (b'', 'end')"
check "the program and a child have the connection" is $netns_tmp/said.shared "$both"
check "... as by the kernel" is $netns_tmp/kernel.shared "$both"
check "... and a program without the library" is $netns_tmp/said.sharedplain "$both"
check "... as by the kernel" is $netns_tmp/kernel.sharedplain "$both"
three="b'between\n' 10 b'program\n' 10 b'child\n' 10 b'child\n' 10 b'parent\n' 10 b'parent\n' 10"
check "parent, program and child have it" is $netns_tmp/said.between "$three"
check "... as by the kernel" is $netns_tmp/kernel.between "$three"
queue="b'first\n' ports 10 (b'', 'end') b'second\n' ports 10 (b'', 'end') b'last\n' ports (b'', 'end') 10"
check "connections that wait for accept() are the program's" is $netns_tmp/said.waiting "$queue"
check "... as by the kernel" is $netns_tmp/kernel.waiting "$queue"
check "... without the library" is $netns_tmp/said.waitingplain "$queue"
check "... as by the kernel" is $netns_tmp/kernel.waitingplain "$queue"
port=$((port + 1))
as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
netns_spawn $netns_tmp/server s "$lib" "${as_nobody[@]}" $(ends serve $port plain) || die "no server"
netns_run s "$lib" timeout 60 "${as_nobody[@]}" $(ends client $port plain) > $netns_tmp/said
check "without privileges the ports are others" said "0 1 (b'written', 'end') soon addresses True b'1\\n' 10 (b'', 'end')"
port=$((port + 1))
netns_spawn $netns_tmp/server s "$lib" "${as_nobody[@]}" $(ends serve $port waiting) || die "no server"
netns_run s "$lib" timeout 60 "${as_nobody[@]}" $(ends client $port waiting) > $netns_tmp/said
check "... and so those of connections that wait" said "${queue//ports/addresses}"
asks user
check "after setuid(), likewise" said "0 1 (b'written', 'end') soon addresses True b'1\n' 10 (b'', 'end')"
three="10 (b'', 'end') 10 (b'', 'end') 10 (b'', 'end')"
asks same
check "... and a program with the library" said "$three"
asks other
check "a program with the library and VMA_LOCAL=0: likewise" said "$three"
asks inetd
check "... of an inetd" said "(b'text\n', 'end') (b'got text\n', 'end')"
stops
check "no relay is left" await 10 eval '! relays'
asks connecting
check "a connection that is not established goes to the kernel" said "b'first\\n' b'second\\n'"
netns_run s "" timeout 60 $(ends client 0 made_up "${SAN_RUNTIME:+$SAN_RUNTIME:}$lib") > $netns_tmp/said
check "a made-up environment changes nothing" said "b'text\\n' b'message' True"
verdict
