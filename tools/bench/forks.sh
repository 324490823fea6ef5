#!/bin/bash
# What a child costs: fork() and exit, the system call clone() and exit, fork() and exec of true(1), in a
# program with a listener on the kernel, with the library and no socket, and with the library and one
# accelerated listener.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#
#	bazel run //tools:bench_forks -- [--rounds N] [--check]
#
#	--rounds N	children of each kind, one after the other (1000)
#	--check		fail if a number is missing
#
# Microseconds, least and median, of the whole round; page faults of the thread that forks, and of the
# child; system calls of both, counted in a run of their own. The least of all rounds says most: the
# median has what else runs on the machine. Instructions are not counted: nearly all are the kernel's.
set -u
self=$(realpath -s "$0")
[[ -e tools/lib/netns.sh ]] || cd "${self%/*}/../.." || exit 1
. tools/lib/netns.sh
netns_enter "$self" "$@"

rounds=1000
check=0
while (($#)); do
	case $1 in
	--rounds) rounds=${2:-} && shift ;;
	--check) check=1 ;;
	*) rounds= ;;
	esac
	shift
done
[[ $rounds =~ ^[1-9][0-9]{0,3}$ ]] || die "usage: bench_forks [--rounds N] [--check]"

program=$(find_program tests/budget/forks) || exit 1
[[ -n $lib ]] || die "no library to measure"
netns_pair ""

# run_here COMMAND...
run_here() {
	(netns_exec s "" 0-1023 timeout -s KILL 300 "$@" 2>&1 < /dev/null) || die "the program fails"
}

# with LIB: words of env(1).
with() {
	[[ -z $1 ]] || echo LD_PRELOAD="$1" "${vma_env[@]}"
}

# row WORDS HOW LIB PORT
row() {
	local run=(env $(with "$3") "$program" run $2 $netns_server $4) out what line

	out=$(run_here "${run[@]}" $rounds) || die "$out"
	out+=" $(run_here "$program" count "${run[@]}" | tail -1)"
	line=$(printf '%-34s' "$1")
	for what in least_us median_us parent_faults child_faults parent_calls child_calls; do
		[[ $out =~ $what=(-?[0-9]+) ]] || BASH_REMATCH=(- -)
		line+=$(printf ' %8s' "${BASH_REMATCH[1]}")
	done
	echo "$line"
}

table() {
	local how

	printf '%-34s %8s %8s %17s %17s\n' "" "us" "median" "faults: parent, c." "calls: parent, c."
	for how in exit:"fork(), exit" clone:"clone(), exit" true:"fork(), exec of true"; do
		row "${how#*:}; kernel" ${how%%:*} "" 7000
		row "${how#*:}; no socket" ${how%%:*} "$lib" 0
		row "${how#*:}; listener" ${how%%:*} "$lib" 7000
	done
}

table | tee $netns_tmp/table
if ((check)) && grep -E ' -( |$)' $netns_tmp/table; then
	die "numbers are missing"
fi
netns_conclude
