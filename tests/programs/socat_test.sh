#!/bin/bash
# socat: bytes in both directions, datagrams, a relay, TLS, a process or a program for each
# connection. Blocks are no larger than a pipe accepts at once, otherwise socat and cat wait for
# each other.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs socat openssl

# through NAME ADDRESS: sends $work/sent, and gets it back.
through() {
	(netns_exec c "$lib_c" 0-1023 timeout -s KILL 100 socat -t 60 - "$2" < "$work/sent" > "$work/back" 2> "$work/$1.log") &&
		cmp "$work/sent" "$work/back"
}

echoed() {
	head -c 1000 "$work/sent" > "$work/one"
	: > "$work/echo"
	{
		cat "$work/one"
		await 30 cmp "$work/one" "$work/echo"
	} | (netns_exec c "$lib_c" 0-1023 timeout -s KILL 100 socat -t 0.1 - UDP:$netns_server:7005 > "$work/echo" 2> "$work/asks.log")
	cmp "$work/one" "$work/echo"
}

visit() {
	local i

	head -c 3000000 /dev/urandom > "$work/sent"
	serve once 7000 socat -b 4096 -t 60 TCP-LISTEN:7000,bind=$netns_server EXEC:cat || return
	check "$what: there and back" through once TCP:$netns_server:7000
	serve relay 7002 socat -b 4096 -t 60 TCP-LISTEN:7002,bind=$netns_server TCP:$netns_client:7003 || return
	netns_exec c "$lib_c" 0-1023 socat -b 4096 -t 60 TCP-LISTEN:7003,bind=$netns_client EXEC:cat > "$work/far.log" 2>&1 < /dev/null &
	servers+=($!)
	await 30 listens c 7003
	check "$what: there and back, by a relay" through relayed TCP:$netns_server:7002
	openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=server -keyout "$work/key" -out "$work/cert" 2> "$work/openssl.log"
	serve tls 7004 socat -b 4096 -t 60 OPENSSL-LISTEN:7004,"reuseaddr,bind=$netns_server,cert=$work/cert,key=$work/key,verify=0" EXEC:cat || return
	check "$what: there and back, by TLS" through tls "OPENSSL:$netns_server:7004,cafile=$work/cert,commonname=server"
	serve udp udp:7005 socat UDP-LISTEN:7005,bind=$netns_server EXEC:cat || return
	check "$what: a datagram is echoed" echoed
	serve forks 7006 socat -b 4096 -t 60 TCP-LISTEN:7006,fork,reuseaddr,bind=$netns_server EXEC:cat || return
	for i in 1 2 3 4 5; do
		check "$what: there and back, by process $i" through forks.$i TCP:$netns_server:7006
	done
	serve execs 7007 socat TCP-LISTEN:7007,fork,reuseaddr,bind=$netns_server EXEC:cat,nofork || return
	for i in 1 2 3; do
		check "$what: there and back, by executed program $i" through execs.$i TCP:$netns_server:7007
	done
	unseen
}
visits
