#!/bin/bash
# The cost of calls that the library only forwards, and of waiting for many sockets: read() and
# write() on a kernel descriptor, compared with those of libc, and epoll_wait() with 1, 100 and
# 10,000 sockets of which one has an event. tests/budget/waits_test.sh counts the instructions.
#
#	bazel run //tools:bench_waits -- [--check]
#
#	--check		fail when a target is missed
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	measured calls            echo, by the kernel
set -u
self=$(realpath -s "$0")
[[ -e tools/lib/netns.sh ]] || cd "${self%/*}/../.." || exit 1
NETNS_LIMIT=240
. tools/lib/netns.sh
netns_enter "$self" "$@"

target_more=10	 # ns
target_grows=1.2 # times the cost of one socket

program=$(find_program tools/bench/waits_bench) || exit 1
probe=$(netns_find_probe) || exit 1
[[ -n $lib ]] || die "no library to measure"
ulimit -Hn 30000 2> /dev/null
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv || die "no server"
netns_run c "$lib" "$program" time $netns_server 7000 > $netns_tmp/figures || {
	cat $netns_tmp/figures
	die "no figures"
}
cat $netns_tmp/figures
awk -v more=$target_more -v grows=$target_grows -v check="${1:-}" '
	$1 == "read" || $1 == "write" {
		split($4, f, "=")
		late += f[2] > more
	}
	/^epoll_wait/ {
		split($2, f, "=")
		if (!one)
			one = f[2]
		printf "%s: %.2f times one\n", $1, f[2] / one
		late += f[2] / one > grows
	}
	END {
		if (late)
			print late " targets are missed"
		exit check == "--check" && late
	}' $netns_tmp/figures
