#!/bin/bash
# An RDMA device that is one for the kernel and for libibverbs, but no ConnectX card: rdma_rxe on the server's
# interface; run in the guest (tools/guest), whose kernel has it.  The mlx5 port finds it and refuses it;
# then XDP has the interface, or the kernel.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2, rxe0 on it  s
#	kernel                    libvma
#
#	tests/guest/rxe.sh
#
# Without a card's folder in sysfs the mlx5 port asks libibverbs nothing, so all but the first server find
# rxe0 in a copy of the folder that says so.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
NETNS_LIMIT=${NETNS_LIMIT:-300}
NETNS_READY=60
netns_enter "$self" "$@"
netns_needs_lib
probe=$(netns_find_probe) || exit 1
vma=$(find_program "${VMA:-tools/vma/vma}") || exit 1
find_python
log=$netns_tmp/vma.log
vma_env=(VMA_TRACELEVEL=debug VMA_LOG_FILE=$log)
no_card='v0 (rxe0): no ConnectX card; the mlx5 port leaves it to others'
not_served='v0 (rxe0): libmlx5 does not serve it'
not_listed='v0 (rxe0): libibverbs does not list the device'

# lists_it: does libibverbs find rxe0, and open it?
lists_it() {
	in_ns s $python - << 'END'
import ctypes
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_get_device_name.restype = ctypes.c_char_p
verbs.ibv_open_device.restype = ctypes.c_void_p
devices = verbs.ibv_get_device_list(None)
names = []
while devices[len(names)]:
    names.append(verbs.ibv_get_device_name(ctypes.c_void_p(devices[len(names)])))
print("    ", names)
assert names == [b"rxe0"] and verbs.ibv_open_device(ctypes.c_void_p(devices[0]))
END
}

# says TEXT: in the log of the server.
says() {
	grep -qF -- "$1" $log && return
	grep -E 'WARNING|mlx5|rxe' $log
	return 1
}

says_no_warning() {
	! grep 'VMA WARNING.*\(v0\|rxe0\)' $log
}

# received: the datagrams and segments that the kernel of the server's side has received.
received() {
	local n

	read -ra n < <(netns_counters s UdpInDatagrams TcpInSegs)
	echo $((n[0] + n[1]))
}

answers() {
	netns_run c "" "$probe" ask udp $netns_server 7000 20 && netns_run c "" "$probe" ask tcp $netns_server 7001 20
}

# by_xdp, by_kernel: 20 datagrams and 20 messages have right answers, in this way.
by_xdp() {
	local before

	before=$(received)
	answers && netns_has_xdp s v0 && (($(received) == before))
}

by_kernel() {
	local before

	before=$(received)
	answers && ! netns_has_xdp s v0 && (($(received) >= before + 40))
}

# serve: $server, with a log of its own.
serve() {
	rm -f $log
	netns_spawn $netns_tmp/server s "$lib" "$probe" serve udp:7000:recv tcp:7001:epoll && server=$spawned
}

# A device that was refused is not held.
has_no_device() {
	! find "/proc/$server/fd" -lname '*infiniband*' | grep .
}

end_server() {
	kill -TERM $server
	await 30 is_gone $server
	wait $server 2> /dev/null
	await 30 eval '! netns_has_xdp s v0'
}

# looks_like_a_card: rxe0 has a card's vendor, and everything else of the real one.
looks_like_a_card() {
	local copy=$netns_tmp/infiniband real

	real=$(realpath /sys/class/infiniband/rxe0) && mkdir -p $copy/rxe0/device/net/v0 &&
		echo 0x15b3 > $copy/rxe0/device/vendor && ln -s "$real/ports" $copy/rxe0/ports &&
		mount --bind $copy /sys/class/infiniband
}

doctor() {
	in_ns s "$vma" doctor --attach v0 > $netns_tmp/doctor 2>&1
	grep -qF "$1" $netns_tmp/doctor && return
	cat $netns_tmp/doctor
	return 1
}

netns_pair ""
modprobe rdma_rxe && modprobe ib_uverbs || die "this kernel has no rdma_rxe"
in_ns s rdma link add rxe0 type rxe netdev v0 || die "no rxe0"
await 30 test -c /dev/infiniband/uverbs0 || die "no node for rxe0"
check "libibverbs lists rxe0" lists_it

check "a server" serve
check "its interface is served by XDP" by_xdp
check "... and why" says "$no_card"
check "... without a warning" says_no_warning
check "the server holds no device" has_no_device
check "it ends" end_server

check "rxe0 looks like a card" looks_like_a_card
check "a server" serve
check "its interface is served by XDP" by_xdp
check "... and why" says "the xdp port serves it, a better one does not: $not_served"
check "the server holds no device" has_no_device
check "vma doctor says it" doctor "$not_served"
check "rxe0 is removed" in_ns s rdma link delete rxe0
check "... and the server goes on" by_xdp
check "it ends" end_server

in_ns s rdma link add rxe0 type rxe netdev v0 || die "no rxe0"
around=(setpriv --bounding-set -bpf,-sys_admin)
check "a server without CAP_BPF" serve
around=()
check "its interface is served by the kernel" by_kernel
check "... and why the card is not used" says "$not_served"
check "... and why XDP is not used" says CAP_BPF
check "it ends" end_server

mount -t tmpfs none /dev/infiniband || die "cannot hide the node"
check "a server without the device's node" serve
check "its interface is served by XDP" by_xdp
check "... and why" says "the xdp port serves it, a better one does not: $not_listed"
check "it ends" end_server
umount /dev/infiniband
verdict
