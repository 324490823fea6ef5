#!/bin/bash
# ncat: files in both directions, datagrams, a broker for several clients, TLS, a command for each
# connection.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs ncat

# send NAME OPTION...: sends $work/sent.
send() {
	(netns_exec c "$lib_c" 0-1023 timeout -s KILL 100 ncat "${@:2}" < "$work/sent" > "$work/$1.log" 2>&1)
}

# Repeats the message until it arrives: the receiver may start later than the sender.
tell() {
	echo news | (netns_exec c "$lib_c" 0-1023 timeout -s KILL 100 ncat --send-only $netns_server 7003) > "$work/tells.log" 2>&1
	says hears '^news' > /dev/null
}

visit() {
	local pid

	head -c 3000000 /dev/urandom > "$work/sent"
	serve sink 7000 bash -c "exec ncat -l $netns_server 7000 > $work/got" || return
	check "$what: a file there" send there --send-only $netns_server 7000
	check "$what: ... whole" await 30 cmp "$work/sent" "$work/got"
	serve source 7001 bash -c "exec ncat -l --send-only $netns_server 7001 < $work/sent" || return
	check "$what: a file from there" use back ncat --recv-only $netns_server 7001
	check "$what: ... whole" cmp "$work/sent" "$work/back.log"
	serve tls 7002 bash -c "exec ncat --ssl -l --send-only $netns_server 7002 < $work/sent" || return
	check "$what: a file from there, by TLS" use tlsback ncat --ssl --recv-only $netns_server 7002
	check "$what: ... whole" cmp "$work/sent" "$work/tlsback.log"
	serve broker 7003 ncat --broker -l $netns_server 7003 || return
	use hears ncat --recv-only $netns_server 7003 &
	pid=$!
	check "$what: what one sends, another receives" await 30 tell
	unseen
	stop "$pid"
}
visits
