#!/bin/bash
# The first real send after some silence, of 100 bytes: nanoseconds of the call, with dummy sends meanwhile
# (one in a millisecond) and without. The program has other work meanwhile, which displaces the sender's
# code and data from the caches.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	the program               echo, by the kernel
#
#	bazel run //tools:bench_silence -- [--count N] [--longest MSEC] [--check]
#
#	--count N	sends for each number (15; after 10 s of silence a third of them)
#	--longest MSEC	no longer silence than this (10000)
#	--check		fail if a number is missing
set -u
self=$(realpath -s "$0")
[[ -e tools/lib/netns.sh ]] || cd "${self%/*}/../.." || exit 1
. tools/lib/netns.sh
netns_enter "$self" "$@"

count=15
longest=10000
check=0
while (($#)); do
	case $1 in
	--count) count=${2:-} && shift ;;
	--longest) longest=${2:-} && shift ;;
	--check) check=1 ;;
	*) count= ;;
	esac
	shift
done
[[ $count =~ ^[1-9][0-9]?$ && $longest =~ ^[1-9][0-9]{0,4}$ ]] ||
	die "usage: bench_silence [--count N] [--longest MSEC] [--check]"

silence=$(find_program tools/bench/silence) || exit 1
probe=$(netns_find_probe) || exit 1
[[ -n $lib ]] || die "no library to measure"
netns_pick_cpus
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"

# nanoseconds PROTO WAY MSEC: the median.
nanoseconds() {
	local n=$count out

	(($3 < 1000)) || n=$(((count + 2) / 3))
	out=$(netns_exec c "$lib" $cpu_client timeout -s KILL 590 "$silence" $1 $netns_server 7000 $2 $3 $n 2>&1 < /dev/null)
	[[ $out =~ ns=([0-9]+)\ fewest=([0-9]+) ]] && echo "${BASH_REMATCH[1]}" || { echo "$out" >&2 && echo -; }
}

table() {
	local msec

	printf 'ns of the first send after silence, median of %s\n' $count
	printf '%-12s %12s %12s %12s %12s\n' "" "UDP, without" "with" "TCP, without" "with"
	for msec in 1 100 10000; do
		((msec <= longest)) || continue
		printf '%-12s %12s %12s %12s %12s\n' "$msec ms" "$(nanoseconds udp cold $msec)" "$(nanoseconds udp warm $msec)" \
			"$(nanoseconds tcp cold $msec)" "$(nanoseconds tcp warm $msec)"
	done
}

table | tee $netns_tmp/table
if ((check)) && grep -E ' -( |$)' $netns_tmp/table; then
	die "numbers are missing"
fi
netns_conclude
