#!/bin/bash
# stress-ng's stressors of sockets and readiness, with the library: they use loopback, which the
# kernel serves, fork, and call everything with many arguments.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_new p

# stress NAME LIB: false if a stressor or one of its checks failed.
stress() {
	(cd $netns_tmp && netns_exec p "$2" 0-1023 timeout -s KILL 100 stress-ng --temp-path $netns_tmp \
		--timeout 1s --verify --oomable "--$1" 2 > "log.$1" 2>&1 < /dev/null)
}

runs() {
	stress $1 "" && ! grep -q skipped $netns_tmp/log.$1
}

for name in sock sockmany sockfd sockpair sockabuse udp udp-flood epoll poll sendfile splice rawudp; do
	[[ $name =~ ${1:-.} ]] || continue
	check "$name: on the kernel" runs $name || tail -n 20 $netns_tmp/log.$name
	check "$name" stress $name "$lib" || tail -n 20 $netns_tmp/log.$name
	check "$name: no warnings of the library" awk '/VMA (WARNING|ERROR|PANIC)/ { print; bad = 1 } END { exit bad }' \
		$netns_tmp/log.$name
done
verdict
