#!/bin/bash
# Multicast to members on the sender's host goes through shared memory, if all of them have the library and
# are of one user; else the kernel sends all of it.  In both cases each member gets each datagram once, and
# so does one on another host.
#
#	c  v0 10.9.0.1 ------------ v0 10.9.0.2  s     publisher, and members
#	   a member
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

needs /usr/bin/python3
[[ -n $lib ]] || die "it needs the library"
netns_pair ""
port=7300
export VMA_LOCAL=1
vma_env=(VMA_TRACELEVEL=warn)
ends() { echo /usr/bin/python3 tests/scenario/local/local_mcast.py "$@"; }
out() { echo $netns_tmp/$port.$1; }

# next: another port, and no members yet.
next() { port=$((port + 1)); }
# joins NAME LIB [OPTION...]: a member on this host, which is there when it returns.
joins() {
	netns_spawn $(out $1) s "$2" $(ends member $port "${@:3}") || die "no member: $(< $(out $1))"
	member=$spawned
}
# far NAME LIB [OPTION...]: one on the other host.
far() {
	HOST=$netns_client netns_spawn $(out $1) c "$2" $(ends member $port "${@:3}") || die "no member: $(< $(out $1))"
}
publishes() { netns_run s "$lib" $(ends publish $port "$@") > $(out publisher); }
starts() {
	netns_spawn $(out publisher) s "$lib" $(ends publish $port until=$(out stop) "$@") ||
		die "no publisher: $(< $(out publisher))"
}
stops() {
	touch $(out stop)
	check "the publisher has ended" await 60 grep -q ^sent $(out publisher)
}
# said NAME [WHAT]: that is the last that it says.
said() { await 60 has_said "$1" "${2:-good}" || { echo "     it says: $(< $(out $1))"; return 1; }; }
has_said() { [[ $(tail -n 1 $(out $1)) == "$2" ]]; }
# The kernel has seen nothing of a publisher that settled.
saw_none() { grep -qx "kernel 0" $(out publisher) || { echo "     $(grep kernel $(out publisher))"; return 1; }; }
# Datagrams that the kernel of the publisher's host has received for sockets.
datagrams() { in_ns s awk '/^Udp: [0-9]/ { print $2 + $5 }' /proc/net/snmp; }
packets() { in_ns s awk '/^IpExt: [0-9]/ { print $4 }' /proc/net/netstat; }
counts() { echo "$(datagrams) $(packets)"; }

# ---- members with the library

next
joins one "$lib"
joins two "$lib" bind=$netns_group
joins three "$lib" only=$netns_server
joins four "$lib" told
far far ""
publishes count=3000 self settles
check "the publisher, a member itself, gets each number once" said publisher "sent 3000"
check "... in order" grep -qx good $(out publisher)
for who in one two three four; do
	check "member $who, with the library, gets each number once" said $who
done
check "... and one on another host" said far
check "... and the kernel saw none here, once members have answered" saw_none
check "a member is told of interface and address" grep -qx "pktinfo v0 $netns_server $netns_group" $(out four)
check "... and of the TTL" grep -qx "ttl 3" $(out four)

next
joins one "$lib"
far far ""
publishes count=500 first settles
check "of a publisher that has sent on this host before, a member gets each number once" said one
check "... and one on another host" said far
check "... and the kernel saw none here, once members have answered" saw_none

next
joins one "$lib" child=1000
far far "" child=1000
publishes count=2000 forks=1000
check "of a publisher that forks, and its child, a member gets each number once, and each one's in order" said one
check "... and one on another host" said far

next
joins one "$lib" forks=1000
joins two "$lib"
publishes count=2000
for who in one two; do
	check "a member forks: $who gets each number once, in order" said $who
done

next
joins one "$lib"
far far "$lib"
publishes count=2000 connect settles
check "of a connected publisher, a member gets each number once" said one
check "... and one on another host" said far
check "... and the kernel saw none here, once members have answered" saw_none

# ---- who hears what

next
joins other "$lib" only=$netns_client quiet=2
joins not "$lib" not=$netns_server quiet=2
joins beside "$lib" group=224.9.9.8 all=0 quiet=2
joins all "$lib" group=224.9.9.8 lossy quiet=2
joins peer "$lib" peer=$netns_client quiet=2
joins one "$lib"
publishes count=500 settles
for who in other not beside; do
	check "one that does not want the publisher gets nothing: $who" said $who
	check "... nothing at all" grep -qx 0 $(out $who)
done
check "one with IP_MULTICAST_ALL hears a group that it has not joined" said all
check "... all of it" grep -qx "$(sed -n 's/^sent //p' $(out publisher))" $(out all)
check "one that is connected to another" said peer
check "... gets nothing" grep -qx 0 $(out peer)
check "and one that wants it gets each number" said one
check "... and the kernel saw none, once members have answered" saw_none

next
joins none "$lib" quiet=2
publishes count=200 loop=0
check "without IP_MULTICAST_LOOP no member here gets anything" said none
check "... nothing at all" grep -qx 0 $(out none)

# ---- members without the library

next
joins one "$lib"
joins plain ""
far far ""
publishes count=2000
for who in one plain far; do
	check "with a plain member, $who gets each number once" said $who
done

next
joins one "$lib"
far far ""
joins plain "" lossy
start=$(counts)
moves() { [[ $(counts) != "$start" ]]; }
starts
check "a plain member gets numbers" await 60 moves
netns_kill $member
before=0
stays() { before=$(counts); sleep 0.3; [[ $(counts) == "$before" ]]; }
check "when it is gone, the kernel sees no more" await 60 stays
stops
check "... and the other has got each number once, in order" said one
check "... and one on another host" said far

next
joins one "$lib"
far far ""
starts
joins late "" late lossy
stays_not() { ! stays; }
check "when a plain member comes, the kernel sees them" await 60 stays_not
stops
for who in one late far; do
	check "... and $who gets each number once, in order" said $who
done

next
joins one "$lib"
far far ""
publishes count=2000 special=1000
check "a number with a control message: each comes once, in order" said one
check "... on another host, too" said far

# ---- members that come, go and are killed

next
joins one "$lib"
far far ""
starts
for i in 1 2 3; do
	netns_spawn $(out wave$i) s "$lib" $(ends waves $port $(out stop)) || die "no waves"
done
for i in 1 2 3 4 5; do
	joins late "$lib" late
	netns_kill $member
done
joins late "$lib" late
comes_again() { (($(grep -c again $(out wave1)) >= $1)); }
check "members come and go" await 60 comes_again 10
stops
check "members come, go and are killed: one that stays gets each number once, in order" said one
check "... and one that came late each from then on" said late
check "... and one on another host" said far
for i in 1 2 3; do
	check "... and those that come and go miss none in between" said wave$i
done

next
joins one "$lib"
joins stopped "$lib"
starts
kill -STOP $member
stops
check "a member that does not run delays no other" said one
kill -CONT $member
check "... and gets each number when it runs again" said stopped

next
joins one "$lib"
joins stopped "$lib"
kill -STOP $member
publishes count=500 slowest
check "a member that does not run when it is asked: the other gets each number once" said one
slowest=$(sed -n 's/^slowest //p' $(out publisher))
echo "     the slowest call: $slowest ms"
check "... and no call waits for it" test "$slowest" -lt 900
kill -CONT $member
check "... and it gets each number when it runs again" said stopped

next
joins one "$lib"
publishes count=500 ttl0 settles
check "of a publisher whose first number has TTL 0, a member gets each number once, in order" said one
check "... and the kernel saw none of those that follow" saw_none

# ---- low ports, of another user than root

# Anybody can read them here.
mkdir $netns_tmp/all && cp "$lib" tests/scenario/local/local_mcast.py $netns_tmp/all/ && chmod -R a+rX $netns_tmp
lib=$netns_tmp/all/libvma.so
ends() { echo /usr/bin/python3 $netns_tmp/all/local_mcast.py "$@"; }
caps=+net_admin,+net_raw,+bpf,+ipc_lock
user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
around=("${user[@]}" --inh-caps=$caps --ambient-caps=$caps)
needs_none() { in_ns s sysctl -qw net.ipv4.ip_unprivileged_port_start=$1; }

# low FROM CAPS [OPTION...]: a publisher of that user at that port; $by_kernel: the datagrams that the kernel
# had meanwhile.
low() {
	next
	joins one "$lib"
	by_kernel=$(datagrams)
	(
		around=(timeout -s KILL 60 "${user[@]}" --inh-caps=$2 --ambient-caps=$2)
		netns_exec s "$lib" 0-1023 $(ends publish $port from=$1 "${@:3}") > $(out publisher) 2>&1 < /dev/null
	)
	by_kernel=$(($(datagrams) - by_kernel))
	check "... a member gets each number once, in order" said one
}
low 7299 $caps settles
check "a publisher that is not root: the kernel saw none" saw_none
low 900 $caps,+net_bind_service count=3000
check "at a low port by a privilege: through the kernel" test $by_kernel -ge 3000
needs_none 800
low 900 $caps settles
check "at a low port that needs none here: the kernel saw none" saw_none
low 799 $caps,+net_bind_service count=3000
check "at a lower one: through the kernel" test $by_kernel -ge 3000
needs_none 1024
verdict
