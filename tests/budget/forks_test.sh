#!/bin/bash
# The cost of fork() and exit, and of fork() and exec: page faults and system calls of the parent and
# of the child, those without the library subtracted, compared with forks.txt. A child that serves a
# local connection does not look for what ended processes have left, and no thread of it but the first
# looks below /proc/thread-self, for which the kernel spins in its parent's wait(2).
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	                          a program without a socket, and one with a listener
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_take_counter

program=$(find_program tests/budget/forks) || exit 1
[[ -n $lib ]] || die "no library to count in"
netns_pair ""
# Statistics of other processes.
mkdir $netns_tmp/stats
for ((i = 0; i < 50; i++)); do
	echo "libvma-statistics pid=1 namespace=$i fd=3" > $netns_tmp/stats/vmastat.$((1000000 + i))
done

# run_in FILE LIB COMMAND...: adds its output to FILE.
run_in() {
	local env=()

	[[ -z $2 ]] || env=(LD_PRELOAD="$2" "${vma_env[@]}")
	(netns_exec s "" 0-1023 timeout -s KILL 100 "${@:4}" env "${env[@]}" "$program" $3 \
		>> $netns_tmp/$1 2>&1 < /dev/null) || cat $netns_tmp/$1
}

# count_in FILE LIB ARGUMENTS: the second run is traced.
count_in() {
	: > $netns_tmp/$1
	run_in "$1" "$2" "run $3"
	run_in "$1" "$2" "run $3" "$program" count
}

# figure FILE WHAT: page faults are those of the first run.
figure() {
	grep -o "$2=[0-9]*" $netns_tmp/$1 | sed -n '1s/.*=//p'
}

# more WHAT: nothing without both figures.
more() {
	local with without

	with=$(figure with $1) && without=$(figure without $1)
	[[ -z $with || -z $without ]] || echo $((with - without))
}

is_at_most() {
	[[ -n $1 ]] && (($1 <= $2))
}

# check_one NAME WHAT BUDGET
check_one() {
	local have

	have=$(more $2)
	check "$1: ${have:-?} more $2, budget $3" is_at_most "$have" "$3"
}

while read -r name how port budgets; do
	[[ $name != "#" ]] || continue
	# After eight in a second the listener leaves such connections to the kernel.
	rounds=
	[[ $how != serve ]] || {
		rounds=6
		export VMA_STATS_SHMEM_DIR=$netns_tmp/stats
	}
	count_in without "" "$how $netns_server $port $rounds"
	count_in with "$lib" "$how $netns_server $port $rounds"
	read -ra most <<< "$budgets"
	for what in parent_calls child_calls parent_faults child_faults; do
		check_one $name $what "${most[0]}"
		most=("${most[@]:1}")
	done
	[[ $how != serve ]] || check "$name: no thread of a child looks below /proc/thread-self" test "$(more thread_looks)" == 0
done < tests/budget/forks.txt
verdict
