#!/bin/bash
# Datagrams between programs on one host go through shared memory, if both have the library and are
# of one user.
#
#	s  lo 127.0.0.1           server and client
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

needs /usr/bin/python3 setpriv
[[ -n $lib ]] || die "it needs the library"
netns_pair ""
port=7100
export VMA_LOCAL=1
script=tests/scenario/local/local_udp.py
ends() { echo /usr/bin/python3 $script "$@"; }

. tests/scenario/local/ends.sh
datagrams() { in_ns s awk '/^Udp: [0-9]/ { print $2 + $5 }' /proc/net/snmp; }
entries() { find /run/libvma/local*-* -type f | wc -l; }

# ---- who talks through shared memory

starts "$lib"
before=$(datagrams)
says "$lib" echo
check "both have the library: right answers" said 100
check "... through shared memory" is_local
says "$lib" connected
check "of a connected socket" said 100
check "... through shared memory" is_local
check "... and the kernel saw no datagram" test "$(datagrams)" == "$before"
says "" echo
check "a plain client of the same socket" said 100
VMA_LOCAL=0 says "$lib" echo
check "VMA_LOCAL=0" said 100
check "... through the kernel" is_kernel
for how in nobody ring sender receiver; do
	says "$lib" order $how
	check "none overtakes another: $how goes to the kernel" said "in order"
done
before=$(datagrams)
says "$lib" echo
check "... where the receiver stays" said 100
check "... and the kernel has its datagrams" test "$(datagrams)" -ge $((before + 100))
stops
starts ""
says "$lib" echo
check "a plain server" said 100
check "... through the kernel" is_kernel
says "$lib" connected
check "... of a connected socket" said 100
check "... through the kernel" is_kernel
stops
# ---- a server that receives from an interface, too

# far LIB HOST ARGUMENT...: what a client on the other host prints.
far() {
	vma_env=(VMA_LOG_FILE=$netns_tmp/log)
	HOST=$2 netns_run c "$1" $(ends "$3" $port "${@:4}") > $netns_tmp/said
	vma_env=()
}

for addr in 0.0.0.0 $netns_server; do
	host=127.0.0.1
	[[ $addr == 0.0.0.0 ]] || host=$addr
	starts "$lib" $addr
	before=$(datagrams)
	HOST=$host says "$lib" echo
	check "a server bound to $addr: right answers" said 100
	check "... through shared memory" is_local
	HOST=$host says "$lib" connected
	check "... of a connected socket" said 100
	check "... through shared memory" is_local
	HOST=$host says "$lib" both $addr
	check "... of one that is bound, too" said 100
	check "... and the kernel saw no datagram" test "$(datagrams)" == "$before"
	far "$lib" $netns_server both
	check "... and of one on another host" said 100
	# Few: what asks for the other host's link address.
	check "... by the card" test "$(datagrams)" -lt $((before + 10))
	HOST=$host says "" echo
	check "... and of a plain one" said 100
	HOST=$host says "$lib" epoll
	check "it is told of each datagram by epoll" said 200
	for i in 1 2 3; do
		HOST=$host says "$lib" gone
	done
	HOST=$host says "$lib" echo
	check "clients that are killed disturb no other" said 100
	check "... through shared memory" is_local
	hows=(nobody ring sender)
	[[ $host != 127.0.0.1 ]] || hows+=(receiver) # which is bound to lo then
	for how in "${hows[@]}"; do
		HOST=$host says "$lib" order $how
		check "none overtakes another: $how goes to the kernel" said "in order"
	done
	HOST=$host check "idle sockets take no processor time" rests "$lib"
	HOST=$host says "$lib" kill
	check "when it is killed: its words, then an error" said "words refused"
	starts "$lib" $addr
	HOST=$host says "$lib" fork
	check "after a fork the child is answered for, and then the parent" said "forked child one two"
	HOST=$host stops
done

# ---- a server that comes after the first datagrams

# comes_late HOW: a client, and then its server, $watching.
comes_late() {
	port=$((port + 1))
	vma_env=(VMA_TRACELEVEL=debug VMA_LOG_FILE=$netns_tmp/log)
	rm -f $netns_tmp/log
	netns_spawn $netns_tmp/early s "$lib" $(ends early $port $1) || die "no client: $(< $netns_tmp/early)"
	vma_env=()
	netns_spawn $netns_tmp/said s "$lib" $(ends watch $port) || die "no server: $(< $netns_tmp/said)"
	watching=$spawned
}
has_changed() { grep -q changed $netns_tmp/early; }
has_said() { grep -q "$1" $netns_tmp/said; }

for how in sendto connected; do
	port=$((port + 1))
	says "$lib" late $how
	check "a server that comes late, $how: none overtakes another" said "in order"
	check "... and then they go through shared memory" is_local
	comes_late $how
	check "in another process" await 60 has_changed
	check "... none overtakes another" await 60 has_said "in order"
	check "... and then they go through shared memory" await 60 is_local
	kill $watching
	wait $watching
done

port=$((port + 1))
says "$lib" again
check "servers that come and go: none overtakes another of its thread" said "in order"

# ---- the end of a process

starts "$lib"
says "$lib" kill
check "a server that is killed: its words, then an error" said "words refused"
port=$((port - 1))
starts "$lib"
check "its entry is gone, and that of the next one is there" test "$(entries)" == 1
says "$lib" echo
check "... which answers" said 100
check "... through shared memory" is_local
for i in 1 2 3; do
	says "$lib" gone
done
says "$lib" echo
check "clients that are killed disturb no other" said 100
check "... through shared memory" is_local
stops
check "no entry of a server stays after an orderly end" test "$(entries)" == 0

# ---- several processes

starts "$lib"
says "$lib" fork
check "after a fork the child is answered for, and then the parent" said "forked child one two"
stops

# ---- low ports, of another user than root

nobody=(setpriv --reuid nobody --regid nogroup --clear-groups)
needs_none() { in_ns s sysctl -qw net.ipv4.ip_unprivileged_port_start=$1; }

# low FROM OPTION...: a client at that port, with these options of setpriv; $by_kernel: the datagrams that
# the kernel had meanwhile.
low() {
	by_kernel=$(datagrams)
	(
		around=(timeout -s KILL 60 "${nobody[@]}" "${@:2}")
		netns_exec s "$lib" 0-1023 $(ends low $port $1) > $netns_tmp/said 2> $netns_tmp/log < /dev/null
	)
	by_kernel=$(($(datagrams) - by_kernel))
}
bind=(--inh-caps=+net_bind_service --ambient-caps=+net_bind_service)

chmod 755 $netns_tmp # for other users
cp $script $netns_tmp
script=$netns_tmp/${script##*/}
around=("${nobody[@]}")
starts "$lib"
around=()
low 900 "${bind[@]}"
check "a low port by a privilege: right answers" said 100
check "... through the kernel" test $by_kernel -ge 100
needs_none 800
low 900
check "a low port that needs none here: right answers" said 100
check "... through shared memory" test $by_kernel -lt 100
low 799 "${bind[@]}"
check "a lower one: right answers" said 100
check "... through the kernel" test $by_kernel -ge 100
needs_none 1024
stops

# ---- an idle pair

starts "$lib"
says "$lib" rare
check "a datagram wakes up a receiver that has slept for long" said "at once"
check "... through shared memory" is_local
stops
starts "$lib"
check "idle sockets take no processor time" rests "$lib"
check "... through shared memory" is_local
stops
verdict
