#!/bin/bash
# Sockets of one host that share a port: the kernel chooses who gets a datagram, and shared memory takes it
# there.
#
#	s  lo 127.0.0.1           servers and clients
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

needs /usr/bin/python3
netns_needs_lib
netns_pair ""
port=7400
export VMA_LOCAL=1
program() { echo /usr/bin/python3 tests/scenario/local/local_reuse.py "$@"; }
kernel_sent() { netns_counters s UdpOutDatagrams; }

# serves LIB NAME OPTION [ADDRESS]: a server; its process is ${servers[NAME]}.
declare -A servers
serves() {
	netns_spawn $netns_tmp/server.$2 s "$1" $(program serve $port "${@:2}") || die "no server: $(< $netns_tmp/server.$2)"
	servers[$2]=$spawned
}
ends() {
	netns_kill "${servers[$1]}"
	unset "servers[$1]"
}
asks() { netns_run s "$1" $(program ask $port); }
follows() {
	netns_spawn $netns_tmp/follow s "$lib" $(program follow $port "$@") || die "no client: $(< $netns_tmp/follow)"
}
is_now() { [[ $(tail -n 1 $netns_tmp/follow) == "now $1" ]]; }

# ---- who is chosen

for option in port addr; do
	port=$((port + 1))
	for name in one two three; do
		serves "$lib" $name $option
	done
	before=$(kernel_sent)
	ours=$(asks "$lib")
	check "SO_REUSE${option^^}: the kernel sent nothing" test "$(kernel_sent)" == "$before"
	kernels=$(asks "")
	check "... each client is answered as by the kernel: $ours" test "$ours" == "$kernels"
	for name in one two three; do
		ends $name
	done
done

# ---- one that nobody shares the port with

port=$((port + 1))
serves "$lib" alone addr 0.0.0.0
before=$(kernel_sent)
check "a server that lets others share the port" test "$(asks "$lib" | tr ' ' '\n' | sort -u)" == alone
check "... through shared memory" test "$(kernel_sent)" == "$before"
ends alone

# ---- they come and go

port=$((port + 1))
serves "$lib" first addr
follows first second first plain first
serves "$lib" second addr
check "the last one that was bound is answered for" await 60 is_now second
ends second
check "when it ends, the one before" await 60 is_now first
serves "" plain addr
check "a server without the library" await 60 is_now plain
ends plain
check "... that ends" await 60 is_now first
ends first
verdict
