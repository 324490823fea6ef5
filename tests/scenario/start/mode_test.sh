#!/bin/bash
# How an interface is accelerated is said once for each, at INFO: native or generic XDP, zero-copy
# or copies. The memory of its frames is on its NUMA node.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s	native: equally many queues
#	   w0 10.9.1.1 ---------- w0 10.9.1.2		generic: s sends by more queues
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

needs python3
netns_pair ""
ip link add w0 netns c numrxqueues 1 numtxqueues 1 type veth peer name w0 netns s numrxqueues 4 numtxqueues 4 ||
	die "no veth"
netns_up c w0 10.9.1.1
netns_up s w0 10.9.1.2
await 30 netns_is_up c w0 || die "the link stays down"
[[ -n $lib ]] || verdict

# opens ADDRESS...: a datagram socket and a listener at each; says where memory of frames is.
opens() {
	netns_run c "$lib" /usr/bin/python3 -I -c '
import socket, sys
keep = []
for address in sys.argv[1:]:
    for kind in socket.SOCK_DGRAM, socket.SOCK_STREAM:
        sock = socket.socket(socket.AF_INET, kind)
        sock.bind((address, 0))
        if kind == socket.SOCK_STREAM:
            sock.listen()
        keep.append(sock)
for line in open("/proc/self/numa_maps"):
    if "vma-umem" in line:
        print("memory", line.split()[1])
' "$@" > $netns_tmp/told
}

# lines PATTERN: how many lines have it.
lines() {
	grep -cE -- "$1" $netns_tmp/told
}

vma_env=(VMA_TRACELEVEL=info)
opens 10.9.0.1 10.9.0.1 10.9.1.1 10.9.1.1
check "v0, native, said once" test "$(lines 'VMA INFO: +v0: accelerated with native XDP, copies')" == 1
check "w0, generic, said once" test "$(lines 'VMA INFO: +w0: accelerated with generic XDP, copies')" == 1
check "nothing else is said of them" test "$(lines 'accelerated with')" == 2
vma_env=(VMA_TRACELEVEL=info VMA_XDP_ZEROCOPY=0)
opens 10.9.0.1
check "copies because they were asked for" test "$(lines 'v0: accelerated with native XDP, copies: as VMA_XDP_ZEROCOPY=0 asks for')" == 1
vma_env=(VMA_TRACELEVEL=warn)
opens 10.9.0.1 10.9.1.1
check "nothing below INFO" test "$(lines 'accelerated with')" == 0

# What the library reads of the devices; the names are those of another namespace otherwise.
check "an interface without a node" test "$(lines '^memory default$')" == 2
mount -t tmpfs none /sys/class/net || die "no tmpfs"
mkdir -p /sys/class/net/v0/device
echo 0 > /sys/class/net/v0/device/numa_node
opens 10.9.0.1 10.9.1.1
check "frames lie on the node of the interface" test "$(lines '^memory prefer(=relative)?:0$')" == 1
check "... of this interface only" test "$(lines '^memory default$')" == 1
verdict
