#!/bin/bash
# The memory and the start-up time of the library: almost nothing before the first socket, less than
# 32 MB with one, for any limit of descriptors.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	asks, by the kernel       one UDP socket
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
netns_pair ""

# status PID FIELD: a number of /proc/PID/status.
status() {
	awk -v field="$2:" '$1 == field { print $2 }' "/proc/$1/status"
}

at_most() {
	(($1 <= $2)) && return
	echo "     $1, at most $2"
	return 1
}

answered() {
	netns_run c "" "$probe" ask udp $netns_server 7000 100 > $netns_tmp/ask
	grep -q answers $netns_tmp/ask
}

# No socket: the same program with and without the library.
netns_spawn $netns_tmp/plain s "" "$probe" pause || die "no process"
plain=$spawned
netns_spawn $netns_tmp/pause s "$lib" "$probe" pause || die "no process"
with=$spawned
echo "no socket: $(status $plain VmRSS) kB plain, $(status $with VmRSS) kB preloaded"
check "no socket: less than 1 MB more" at_most $(($(status $with VmRSS) - $(status $plain VmRSS))) 1023
check "no socket: no thread" at_most "$(status $with Threads)" 1
check "no socket: no descriptor" at_most "$(ls /proc/$with/fd | wc -l)" "$(ls /proc/$plain/fd | wc -l)"
netns_kill $plain $with

# Start-up: the minimum of processes that run in turns. A busy machine slows some down, not all, and a slow
# one slows both kinds. Counting instructions would be exact, but there are half a million, and a step takes
# 30 us; system calls and page faults are counted by tests/budget/forks_test.sh.
if [[ -n $lib ]]; then
	times=$("$probe" startup 200 $lib 2> /dev/null)
	echo "/bin/true: $times"
	[[ $times =~ plain_us=([0-9]+)\ preloaded_us=([0-9]+) ]] || die "no times"
	check "start-up: less than three times as long" at_most "${BASH_REMATCH[2]}" $((3 * BASH_REMATCH[1]))
fi

# As many as this process may have; raising the limit needs a capability.
most=$(ulimit -Hn)
ulimit -Hn 1000000 2> /dev/null && most=1000000
for files in 1024 "$most"; do
	ulimit -Sn "$files" || die "no limit of $files descriptors"
	check "$files descriptors: a server" netns_spawn $netns_tmp/serve s "$lib" "$probe" serve udp:7000:recv
	check "... answers" answered
	echo "one socket, $files descriptors: $(status $spawned VmRSS) kB"
	check "... in less than 32 MB" at_most "$(status $spawned VmRSS)" 32767
	if [[ -n $lib ]]; then
		check "... accelerated" netns_has_xdp s v0
	fi
	netns_kill $spawned
done
verdict
