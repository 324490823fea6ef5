#!/bin/bash
# Descriptors of rings, in poll(), select() and epoll beside an ordinary one: they are readable while
# a socket of the ring is, and wake threads that wait for them.
#
#	c  v0 10.9.0.1, the program ---------- v0 10.9.0.2  s
#	                                       echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

rings=$(find_program tests/scenario/extra/rings) || exit 1
errors=$(find_program tests/mlx5/direct_errors) || exit 1
. tests/scenario/extra/echoes.sh

runs() {
	netns_run c "$1" "$rings" "$2" $netns_server 7000 60 > $log 2>&1 || { tail -30 $log && false; }
}

for proto in udp tcp; do
	check "$proto" runs "$lib" $proto
	check "... the library is there" says '^api here'
	check "... nothing is wrong" says '^bad 0'
	check "without the library, $proto waits for the socket itself" runs "" $proto
	check "... it is not there" says '^api none'
	check "... nothing is wrong" says '^bad 0'
done
vma_env+=(VMA_RX_POLL=0 VMA_SELECT_POLL=0)
check "threads that sleep at once" runs "$lib" udp
check "... nothing is wrong" says '^bad 0'
refuses() {
	netns_run c "$lib" timeout 60 "$errors" none $netns_server 7000 > $log 2>&1 || { tail -30 $log && false; }
}
check "without a card, what needs one is refused" refuses
check "... nothing is wrong" says '^bad 0'
for name in vma_modify_ring get_ring_direct_descriptors register_memory_on_ring deregister_memory_on_ring \
	"vma_add_ring_profile, with" SO_VMA_RING_USER_MEMORY; do
	check "... $name is logged once" test "$(grep -c "VMA WARNING: $name" $log)" = 1
done
verdict
