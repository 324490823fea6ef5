#!/bin/bash
# A latency test of two programs, each with the library or without, in each way of the extra API: what
# they count is what they count through the kernel, and the kernel sees nothing of it.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	lat client                lat server
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

lat=$(find_program tests/scenario/extra/lat) || exit 1
messages=300
port=7000
netns_pair ""

# by_kernel NAMESPACE: what its kernel has received.
by_kernel() {
	netns_counters "$1" UdpInDatagrams TcpInSegs
}

# runs SIDES PROTO WAY [dummy]: $of_c, $of_s: what the kernels have received; outputs in c and s.
runs() {
	local lib_c="" lib_s="" before_c before_s rc

	[[ $1 != client && $1 != both ]] || lib_c=$lib
	[[ $1 != server && $1 != both ]] || lib_s=$lib
	port=$((port + 1))
	before_c=$(by_kernel c) before_s=$(by_kernel s)
	netns_spawn $netns_tmp/s s "$lib_s" timeout 60 "$lat" server $2 $netns_server $port $messages $3 || return 1
	(netns_exec c "$lib_c" 0-1023 timeout 60 "$lat" client $2 $netns_server $port $messages $3 "${@:4}") \
		> $netns_tmp/c 2> $netns_tmp/errors.c
	rc=$?
	wait $spawned || rc=1
	of_c=$([[ $(by_kernel c) == "$before_c" ]] && echo nothing)
	of_s=$([[ $(by_kernel s) == "$before_s" ]] && echo nothing)
	((rc == 0)) || cat $netns_tmp/c $netns_tmp/errors.c $netns_tmp/s
	return $rc
}

# counts: of both, without what the library logs.
counts() {
	grep -hE '^(sent|received|repeated|wrong)' $netns_tmp/c $netns_tmp/s
}

same() {
	counts | diff $netns_tmp/kernel - || { cat $netns_tmp/errors.c && false; }
}

printf '%s\n' "sent $messages received $messages" "repeated 0 misplaced 0 bad 0" \
	"received $messages answered $messages" "repeated 0 misplaced 0 bad 0" > $netns_tmp/kernel
# try SIDES PROTO WAY [dummy]: they count what two programs do through the kernel.
try() {
	local vma_env=("${vma_env[@]}")

	[[ $3 != xtreme ]] || vma_env+=(VMA_SOCKETXTREME=1)
	# Those with a peer without the library sleep at once; otherwise calls poll first.
	[[ $1 == both ]] || vma_env+=(VMA_RX_POLL=0 VMA_SELECT_POLL=0)
	check "$2, $3, $1${4:+, with dummy sends}" runs "$@"
	check "... they count the same" same
	[[ $1 == server ]] || check "... the client's kernel receives nothing" test "$of_c" = nothing
	[[ $1 == client ]] || check "... nor does the server's" test "$of_s" = nothing
}

for proto in udp tcp; do
	check "$proto, by the kernel" runs none $proto plain
	check "... all is there once" same
done
# Each way is each side's over each protocol, and against a peer that has no library over one of them; dummy sends,
# which a client makes, come with each way and protocol.
for way in plain callback zcopy xtreme; do
	case $way in
	plain | zcopy) one=udp other=tcp ;;
	*) one=tcp other=udp ;;
	esac
	try both $one $way dummy
	try both $other $way
	try client $other $way $([[ $way == plain || $way == xtreme ]] && echo dummy)
	try server $one $way
done
verdict
