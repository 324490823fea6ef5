#!/bin/bash
# Jumbo frames: an MTU that no frame of the library holds.  With native XDP, and with generic XDP
# (where one end has more TX queues than the other RX queues); the largest MTU, and one above it.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	asks                      echoes
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

jumbo=tests/scenario/links/jumbo.py
log=$netns_tmp/asked

# pair MTU [QUEUES]: c's and s's are like that; QUEUES: TX queues of s
pair() {
	ip -n c link del v0 2> /dev/null
	ip link add v0 netns c mtu $1 numrxqueues 1 numtxqueues 1 type veth \
		peer name v0 netns s mtu $1 numrxqueues 1 numtxqueues ${2:-1} || die "no veth"
	netns_up c v0 $netns_client
	netns_up s v0 $netns_server
	await 30 netns_is_up c v0 && await 30 netns_is_up s v0 || die "the link stays down"
}

# The datagrams and segments that the kernel of an end has received since remember().
taken() {
	paste -d ' ' <(netns_counters $1 UdpInDatagrams TcpInSegs) $netns_tmp/$1.then |
		awk '{ print $1 - $3, $2 - $4 }'
}

remember() {
	local end

	for end in c s; do
		netns_counters $end UdpInDatagrams TcpInSegs > $netns_tmp/$end.then
		netns_counters $end IpReasmOKs > $netns_tmp/$end.pieces
	done
}

# Frames came as they are: no datagram was put together from fragments.
no_fragments() {
	[[ $(netns_counters c IpReasmOKs) == "$(< $netns_tmp/c.pieces)" &&
		$(netns_counters s IpReasmOKs) == "$(< $netns_tmp/s.pieces)" ]]
}

# bypassed END LIB: the kernel had nothing there.
bypassed() {
	[[ -z $2 || $(taken $1) == "0 0" ]] || { taken $1 && false; }
}

# answered WORDS
answered() {
	grep -q "^$1" $log
}

# row WHAT MTU SERVER-LIB CLIENT-LIB: stops after the datagrams that need no fragments, and looks.
row() {
	local what=$1 mtu=$2 asker

	netns_spawn $netns_tmp/served s "$3" python3 $jumbo serve || die "no server"
	remember
	mkfifo $netns_tmp/go
	(netns_exec c "$4" 0-1023 timeout 200 python3 $jumbo ask $netns_server $mtu < $netns_tmp/go > $log 2>&1) &
	asker=$!
	exec 7> $netns_tmp/go
	check "$what: datagrams of all sizes" await 100 answered datagrams || cat $log
	check "$what: one of the MTU, and none above" await 30 answered "too long True mtu $mtu"
	check "$what: none was cut" no_fragments
	check "$what: the asker's kernel had none" bypassed c "$4"
	check "$what: the server's kernel had none" bypassed s "$3"
	echo >&7
	exec 7>&-
	check "$what: larger ones are cut" await 100 answered fragments
	check "$what: a stream, in segments of the MTU" await 100 answered "stream mss $((mtu - 52))" || cat $log
	wait $asker
	check "$what: the kernels had no segment" streams_bypass "$3" "$4"
	kill $spawned
	wait $spawned 2> /dev/null
	rm $netns_tmp/go
}

# Fragments are put together by the kernel.
streams_bypass() {
	local end lib

	for end in s c; do
		lib=$1 && shift
		[[ -z $lib || $(taken $end) == *" 0" ]] || { taken $end && return 1; }
	done
}

# is_way WORD: the interface of c is served so.
is_way() {
	rm -f $netns_tmp/way
	netns_run c "$lib" env VMA_TRACELEVEL=info VMA_LOG_FILE=$netns_tmp/way python3 -c \
		"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('$netns_client', 7001))"
	grep -q "$1" $netns_tmp/way || { cat $netns_tmp/way && false; }
}

netns_new c
netns_new s
pair 9000
[[ -z $lib ]] || check "native XDP" is_way "v0: accelerated with native XDP"
row "client" 9000 "" "$lib"
row "server" 9000 "$lib" ""
row "both" 9000 "$lib" "$lib"
pair 9216
row "the largest MTU" 9216 "$lib" "$lib"
pair 9000 2
[[ -z $lib ]] || check "generic XDP" is_way "v0: accelerated with generic XDP"
row "generic client" 9000 "" "$lib"
row "generic both" 9000 "$lib" "$lib"
pair 9217
[[ -z $lib ]] || check "above the largest: a reason" is_way "its MTU of 9217 does not fit a buffer"
row "above the largest" 9217 "" ""
verdict
