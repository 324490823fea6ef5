#!/bin/bash
# Frames in memory of the program (CMSG_VMA_IOCTL_USER_ALLOC): pointers of recvfrom_zcopy() are into it; an
# allocator that fails, or lies, leaves the interface to the kernel; and such an interface is shared with
# nobody.
#
#	c  v0 10.9.0.1, the program ---------- v0 10.9.0.2  s
#	                                       echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

alloc=$(find_program tests/scenario/extra/alloc) || exit 1
probe=$(netns_find_probe) || exit 1
log=$netns_tmp/log
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv || die "no server"

runs() {
	netns_run c "$lib" timeout 60 "$alloc" "$1" $netns_server 7000 > $log 2>&1 || { tail -30 $log && false; }
}

says() {
	grep -qE "$1" $log || { tail -30 $log && false; }
}

for how in good odd late; do
	check "$how" runs $how
	check "... is accelerated" says '^zero-copy'
	check "... nothing is wrong" says '^bad 0'
done
for how in null short; do
	check "$how" runs $how
	check "... the kernel serves it" says '^kernel'
	check "... nothing is wrong" says '^bad 0'
	check "... the log says why" says "the program's allocator"
done
mkfifo $netns_tmp/in
netns_exec c "$lib" 0-1023 timeout 60 "$alloc" hold $netns_server 7000 < $netns_tmp/in > $netns_tmp/hold 2>&1 &
holder=$!
exec {in}> $netns_tmp/in
check "a program with its own memory" await 30 grep -qx ready $netns_tmp/hold
check "... another one with its own is served by the kernel" runs good
check "... as it says" says '^kernel'
check "... the log says why" says 'cannot be shared'
check "... so is one without" netns_run c "$lib" "$probe" ask udp $netns_server 7000 10
exec {in}>&-
check "... it ends well" wait $holder
check "... nothing was wrong" grep -q '^bad 0' $netns_tmp/hold
check "then the interface is free again" runs good
check "... and accelerated" says '^zero-copy'
verdict
