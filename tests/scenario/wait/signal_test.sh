#!/bin/bash
# Signals end a wait with EINTR, close() in another thread does not end it, and a program that has
# closed its sockets exits at once.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	waits                     echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

probe=$(netns_find_probe) || exit 1
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"
check "signals and close" netns_run c "$lib" "$probe" signals $netns_server 7000

# The peer of the second connection keeps its side open for ever.
for protocol in udp tcp; do
	check "$protocol: a program ends" timeout 30 nsenter --net=/run/netns/c \
		env ${lib:+LD_PRELOAD=${SAN_RUNTIME:+$SAN_RUNTIME:}$lib "${vma_env[@]}"} \
		"$probe" ask $protocol $netns_server 7000 10
done
verdict
