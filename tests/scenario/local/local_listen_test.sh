#!/bin/bash
# Listeners of one host that share a port: the kernel chooses who gets a connection, and shared memory takes
# it there.
#
#	s  lo 127.0.0.1           servers and clients
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s: servers whose port another program shares
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

needs /usr/bin/python3
netns_needs_lib
netns_pair ""
port=7500
export VMA_LOCAL=1
program() { echo /usr/bin/python3 tests/scenario/local/local_listen.py "$@"; }
asks() { netns_run "${2:-s}" "$1" $(program ask $port $3); }
# The connections that the kernel has made.
kernel_made() { netns_counters s TcpPassiveOpens; }

# serves LIB NAME [WHEN [ADDRESS]]: a server; its process is ${servers[NAME]}.
declare -A servers
serves() {
	netns_spawn $netns_tmp/server.$2 s "$1" $(program serve $port "${@:2}") || die "no server: $(< $netns_tmp/server.$2)"
	servers[$2]=$spawned
}
all_end() {
	netns_kill "${servers[@]}"
	servers=()
	port=$((port + 1))
}

# same WHAT KERNEL-MADE: clients of ours are answered by the same listeners as those of the kernel, which
# makes so many of their connections; ours: who answered. The kernel's clients come last: their ports then
# wait in it.
same() {
	local before=$(kernel_made) kernels

	ours=$(asks "$lib")
	made=$(($(kernel_made) - before))
	check "$1: the kernel made $2 of the connections" test $made == "$2" || echo "it made $made"
	kernels=$(asks "")
	check "... each client is answered as by the kernel: $ours" test "$ours" == "$kernels"
}
count() { tr ' ' '\n' <<< "$ours" | grep -cx "$1"; }
among() { tr ' ' '\n' <<< "$ours" | sort -u | paste -sd ' '; }

for name in one three two; do
	serves "$lib" $name
done
same "three listeners" 0
check "... each of them" test "$(among)" == "one three two"
all_end

serves "$lib" ours
serves "" plain
before=$(kernel_made)
ours=$(asks "$lib")
plain=$(count plain)
check "one without the library gets its part, by the kernel" test $plain -gt 0 -a $plain -lt 16 -a \
	$(($(kernel_made) - before)) == $plain
check "... the same clients as by the kernel: $ours" test "$ours" == "$(asks "")"
all_end

serves "$lib" first later
ours=$(asks "$lib")
check "one that nobody shares the port with" test "$(count first)" == 16
serves "$lib" second
same "it has set SO_REUSEPORT after listen()" 0
check "... both" test "$(among)" == "first second"
all_end

serves "$lib" parent forks
serves "$lib" other
same "two processes have one listener" 0
all_end

serves "$lib" wide first 0.0.0.0
serves "" narrow
same "the one with the address is the kernel's" 16
check "... it gets all" test "$(among)" == narrow
all_end

serves "$lib" chosen
serves "$lib" filtering filtered
same "a BPF program chooses" 16
check "... the first one" test "$(among)" == chosen
all_end

# ---- on the wire, one without the library has the port, too: the kernel receives

serves "" plain first $netns_server
serves "$lib" parent forks $netns_server
check "wire: a forked process accepts, and the other one gets its part" test "$(
	asks "" c $netns_server | tr ' ' '\n' | sort -u | paste -sd ' ')" == "parent plain"
check "... v0 is not accelerated for that" eval '! netns_has_xdp s v0'
ip -n s addr add 10.9.0.77/24 dev v0 || die "no address"
check "... nor when an address was added" eval 'asks "" c $netns_server > /dev/null && ! netns_has_xdp s v0'
all_end
verdict
