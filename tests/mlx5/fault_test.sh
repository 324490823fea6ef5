#!/bin/bash
# The mlx5 port when the card fails or cannot be used: sockets go on through another port or the
# kernel, within a second, and the reason is told.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
. tests/mlx5/card.sh

needs ethtool ping
probe=$(netns_find_probe) || exit 1
card_start
with_card="$lib:$netns_tmp/shim.so"
log=$netns_tmp/log

# on_card COMMAND...: with the library on the card, in the background.
on_card() {
	netns_spawn $log s "$with_card" env "${card_vars[@]}" VMA_TRACELEVEL=debug "$@"
}

serve() {
	on_card "$@" "$probe" serve udp:7000:recv udp:7001:epoll tcp:7000:recv
}

answered() {
	netns_run c "" "$probe" ask "$1" $netns_server "$2" "$3" > $netns_tmp/ask
	grep -q "^$3 .*answers$\|$3 answers$" $netns_tmp/ask || {
		cat $netns_tmp/ask
		return 1
	}
}

# sees NAME COMMAND...: does the card's counter rise while it runs?
sees() {
	local before

	before=$(card_counter "$1")
	"${@:2}" && (($(card_counter "$1") > before))
}

logged() {
	await 30 grep -q "$1" $log || {
		cat $log
		return 1
	}
}

# all_serve WHERE: all sockets of the server answer, and the card's counter WHERE tells how.
all_serve() {
	sees "$1" answered udp 7000 5 && sees "$1" answered udp 7001 5 && sees "$1" answered tcp 7000 5
}

# An open connection when the card fails: its peer gets an answer, or its end.
connect_card() {
	coproc conn { in_ns c nc -w 60 $netns_server 7000; }
	nc_pid=$conn_PID
	printf 'x' >&"${conn[1]}"
	IFS= read -rN 1 -t 30 answer <&"${conn[0]}" && [[ $answer == x ]]
}

connection_is_settled() {
	local rc

	printf 'y' >&"${conn[1]}" 2> /dev/null
	IFS= read -rN 1 -t 30 answer <&"${conn[0]}"
	rc=$?
	kill $nc_pid 2> /dev/null
	((rc == 0 || rc == 1))
}

# ---- a queue, or the device, fails --------------------------------------------------------------

for fault in fail report remove; do
	check "$fault: a server on the card" serve
	check "$fault: it is served by the card" all_serve received
	check "$fault: nothing was violated so far" test "$(card_counter violations)" = 0
	check "$fault: a connection is open" connect_card
	card_fault $fault
	check "$fault: the port is given up" logged 'go on without the card'
	if [[ $fault == remove ]]; then
		check "$fault: the kernel serves all" await 30 all_serve to_kernel
	else
		check "$fault: all is served" await 30 answered udp 7000 5
		check "$fault: ... epoll_wait" await 30 answered udp 7001 5
		check "$fault: ... connections" await 30 answered tcp 7000 5
	fi
	check "$fault: the connection goes on, or has ended" connection_is_settled
	check "$fault: the server lives" kill -0 $spawned
	kill -TERM $spawned
	check "$fault: and ends" await 30 is_gone $spawned
done

check "removed: a new server" serve || cat $log
check "removed: says why" logged 'mlx5_0.*cannot be opened'
check "removed: is served by the kernel" all_serve to_kernel
netns_kill $spawned
check "removed: XDP takes the interface if it may" serve VMA_XDP_DEVICES=tun
check "removed: it is the xdp port" logged 'mlx0: xdp port'
check "removed: it answers" answered udp 7000 5
netns_kill $spawned
card_fault return
check "returned: a new server" serve
check "returned: is served by the card" all_serve received
netns_kill $spawned

# ---- refusals -----------------------------------------------------------------------------------

# refused WHAT REASON COMMAND...: all is served by the kernel, and the reason is in the log.
refused() {
	check "$1" on_card "${@:3}" "$probe" serve udp:7000:recv udp:7001:epoll tcp:7000:recv || cat $log
	check "... the reason" logged "$2"
	check "... the kernel serves" all_serve to_kernel
	netns_kill $spawned
}

refused "without CAP_NET_RAW" 'Raw packets need CAP_NET_RAW' setpriv --bounding-set=-net_raw
refused "without the device's node" 'cannot be opened.*node' CARD_SOCKET=$netns_tmp/nothing

mkdir -p $netns_tmp/old
cp "$(ldconfig -p | awk '$1 == "libc.so.6" { print $NF; exit }')" $netns_tmp/old/libibverbs.so.1
refused "a library that is too old" 'libibverbs.so.1 has no ibv_.* too old' LD_LIBRARY_PATH=$netns_tmp/old

verbs_at=$(realpath "$(ldconfig -p | awk '$1 == "libibverbs.so.1" { print $NF; exit }')")
refused "without libibverbs" 'libibverbs.so.1 cannot be opened.*libibverbs1' \
	unshare -m bash -c 'mount --bind /dev/null "$0" && exec "$@"' "$verbs_at"

card_fault refuse
refused "rules that the card cannot make" 'the card refuses a rule'
check "a client's peer" netns_spawn $netns_tmp/peer c "" "$probe" serve tcp:7003:recv
check "a client connects by the kernel" netns_run s "$with_card" env "${card_vars[@]}" \
	"$probe" ask tcp $netns_client 7003 5
netns_kill $spawned
card_fault admit

# doctor PATTERN ENV...: what vma doctor says of the card's interface.
doctor() {
	in_ns s env "${card_vars[@]}" LD_PRELOAD=$netns_tmp/shim.so "${@:2}" "$vma" doctor $attach mlx0 > $netns_tmp/doctor 2>&1
	grep -q "$1" $netns_tmp/doctor || {
		cat $netns_tmp/doctor
		return 1
	}
}
vma=$(find_program tools/vma/vma) || exit 1
attach=
check "vma doctor knows the card" doctor 'a ConnectX card, and its libraries are there; with --attach'
check "vma doctor: a library that is too old" doctor 'libibverbs.so.1 has no ibv_' LD_LIBRARY_PATH=$netns_tmp/old
attach=--attach
check "vma doctor opens it" doctor 'it can be opened'
check "vma doctor: it cannot be opened" doctor 'the device cannot be opened' CARD_SOCKET=$netns_tmp/nothing

# hostile CHANGE...: sysfs says something else.
mkdir $netns_tmp/changed
hostile() {
	local dir=$netns_tmp/changed/$((++changed))

	cp -r $card_sys $dir
	(cd $dir/class/infiniband/mlx5_0 && eval "$1") || die "$1"
	check "sysfs: $2" on_card SYSFS_PATH=$dir "$probe" serve udp:7000:recv udp:7001:epoll tcp:7000:recv || cat $log
	check "... the kernel serves" all_serve to_kernel
	netns_kill $spawned
}
changed=0
hostile 'rm -r device' "a device without files"
hostile 'echo 300 > device/net/mlx0/dev_port' "a port that the device has not"
hostile 'mkdir -p ports/1/gid_attrs/ndevs && echo other > ports/1/gid_attrs/ndevs/0' "a port of another interface"
hostile 'cd .. && mv mlx5_0 "$(printf "mlx5\n0")"' "a name that is none"
hostile 'rm ../../infiniband_verbs/uverbs0/dev' "no device number"
check "nothing was violated" test "$(card_counter violations)" = 0
verdict
