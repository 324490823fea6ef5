#!/bin/bash
# Programs without any socket code, executed with a connection: by python's subprocess (vfork,
# fork), posix_spawn() and system(), and by socat and ncat.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs python3 socat ncat

# there_and_back NAME WORD PORT: sends WORD and $work/sent, and gets $work/sent back.
there_and_back() {
	(cat <(printf %s "$2") "$work/sent" |
		netns_exec c "$lib_c" 0-1023 timeout -s KILL 100 socat -t 60 - TCP:$netns_server:$3 > "$work/back" 2> "$work/$1.client.log") &&
		same "$1" "$work/sent"
}

# same NAME FILE: that came back; if not, what both sides have said is shown.
same() {
	cmp "$2" "$work/back" && return
	tail -n 20 "$work/$1.client.log" "$work/$1.log"
	return 1
}

# little NAME PORT: a thousand bytes; ncat drops data in transit when one side has ended.
little() {
	head -c 1000 "$work/sent" > "$work/one"
	: > "$work/back"
	{
		cat "$work/one"
		await 30 cmp -s "$work/one" "$work/back"
	} | (netns_exec c "$lib_c" 0-1023 timeout -s KILL 100 socat -d -d -t 60 - TCP:$netns_server:$2 > "$work/back" 2> "$work/$1.client.log")
	same "$1" "$work/one"
}

visit() {
	local way

	head -c 300000 /dev/urandom > "$work/sent"
	serve inetd 7000 python3 tests/programs/inetd.py $netns_server 7000 || return
	for way in popen_stdio popen_pass popen_prepared popen_input spawn system execute; do
		check "$what: $way" there_and_back $way "$way " 7000
	done
	serve socat 7001 socat -b 4096 -t 60 TCP-LISTEN:7001,fork,reuseaddr,bind=$netns_server SYSTEM:cat || return
	check "$what: socat SYSTEM" there_and_back socat "" 7001
	serve ncat 7003 ncat -l -k -e "/usr/bin/head -c 1000" $netns_server 7003 || return
	check "$what: ncat -e" little ncat 7003
	serve shell 7004 ncat -l -k -c "head -c 1000; exit" $netns_server 7004 || return
	check "$what: ncat -c" little shell 7004
	unseen
}
visits
