#!/bin/bash
# Readers of a process's page and recorder, which are of another version, are no page at all, or lie:
# each says so and ends, within its time, and other processes are shown all the same.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	talker.py, vma ...        echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

probe=$(netns_find_probe) || exit 1
stats=$(find_program tools/vma/vma_stats) || exit 1
vma=$(find_program tools/vma/vma) || exit 1
dir=$netns_tmp/pages
said=$netns_tmp/said
mkdir $dir
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"

# start NAME PORT: a talker; its process id is $pid.
start() {
	mkfifo $netns_tmp/$1.fifo
	vma_env=(VMA_TRACELEVEL=warn VMA_STATS_SHMEM_DIR=$dir VMA_STATS_LATENCY=1)
	netns_spawn $netns_tmp/$1 c "$lib" python3 tests/scenario/stats/talker.py $netns_tmp/$1.fifo "$2" ||
		{ cat $netns_tmp/$1 && die "no talker"; }
	pid=$spawned
	exec {fifo}> $netns_tmp/$1.fifo
}

other() {
	python3 tests/scenario/stats/other.py "$@"
}

# ends WANTED COMMAND...: it ends by itself, with this status, or any (-) but that of a signal.
ends() {
	local rc

	timeout -s KILL 30 "${@:2}" > $said 2>&1 < /dev/null
	rc=$?
	if [[ $1 == - ]]; then
		((rc < 124)) && return
	else
		((rc == $1)) && return
	fi
	echo "     status $rc: ${*:2}"
	head -c 2000 $said
	return 1
}
says() {
	grep -qEe "$1" $said || { head -c 2000 $said && false; }
}

# Each command that reads a page, of one process: $1.
commands() {
	printf '%s\n' "$stats -k $dir -p $1 -c 1 -v 1" "$stats -k $dir -p $1 -c 1 -v 2" "$stats -k $dir -p $1 -c 1 -v 3" \
		"$stats -k $dir -p $1 -c 1 -v 4" "$stats -k $dir -p $1 -c 1 -v 6" "$stats -k $dir -p $1 -c 1 -v 7" \
		"$stats -k $dir -p $1 --json" "$stats -k $dir -p $1 --openmetrics" "$stats -k $dir -p $1 -z -c 1" \
		"$stats -k $dir -p $1 -l info" "$stats -k $dir -p $1 -S 0 info" "$vma top --once -k $dir $1" \
		"$vma capture $1 -k $dir -w $netns_tmp/none -d 1"
}

# each PATTERN [WANTED]: the commands of the input, at the same time, since most wait for a second. Each ends
# by itself, and says that; what they said is in $said.*.
each() {
	local command n=0 pids=() pid bad=0

	rm -f $said.*
	while read -ra command; do
		n=$((n + 1))
		(
			trap - EXIT
			said+=.$n
			ends ${2:--} "${command[@]}" && { [[ -z $1 ]] || says "$1"; }
		) &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || bad=1
	done
	return $((bad || !n))
}

# ---- another version -------------------------------------------------------------------

start one 5000
first=$pid
check "it is read" ends 0 "$stats" -k $dir -p $pid -c 1
read -r page recorder < <(other version $pid 777)
while read -ra command; do
	check "another version: $(basename "${command[0]}") ${command[*]:1:7}" ends 1 "${command[@]}"
	check "... which it names" says "it has a page of version 777, and this vma_stats reads version $page: use the one of its library"
done < <(commands $pid)
check "... its recorder: vma trace" ends 1 "$vma" trace $pid
check "... which it names" says "a recorder of version 777, and this vma reads version $recorder: use the"
start two 5100
check "of all processes: view 5" ends - "$stats" -k $dir -v 5
check "... has the other one" says "ESTABLISHED .*$pid/python3"
check "of all processes: vma top" ends 0 "$vma" top --once -k $dir
check "... has the other one" says "^ *$pid python3"
check "... and not that of another version" eval '! grep -qE "^ *$first python3" $said'
check "nobody was disturbed: it goes on" eval 'echo "udp 5" >&$fifo; await 30 grep -q "^done udp 5" $netns_tmp/two'
netns_kill $first

# ---- pages that are none -----------------------------------------------------------------

# What names no memory is taken for what a process has left behind, and removed.
for kind in empty short zeros huge unsealed random file pipe; do
	netns_spawn $netns_tmp/pretends c "" python3 tests/scenario/stats/other.py pretend $dir $kind || die "it does not pretend"
	check "a page that is none ($kind): each command says so" \
		each 'the page|a page of statistics|no statistics|impossible|accelerated sockets|Failed to identify process|No such file' 1 \
		< <(commands $spawned)
	echo "     $(tail -n 1 $said.1)"
	check "... the others are shown: view 5" eval 'ends - "$stats" -k $dir -v 5; says "ESTABLISHED .*$pid/python3"'
	netns_kill $spawned
	rm -f $dir/vmastat.$spawned
done

# ---- pages that lie ------------------------------------------------------------------------

for seed in {1..4}; do
	other scribble $pid $seed
	check "a page that lies ($seed): each command ends" each '' \
		< <(commands $pid; echo "$vma trace $pid"; echo "$vma trace --json $pid"; echo "$stats -k $dir -v 5")
	# What is shown has nothing that a terminal obeys.
	check "... and prints plain text" eval '! LC_ALL=C grep -q "[^[:print:][:space:]]" $said.*'
done
check "the process believes nothing of it: it goes on" eval 'echo "udp 6" >&$fifo; await 30 grep -q "^done udp 6" $netns_tmp/two'
check "... and ends" eval 'echo quit >&$fifo; await 30 is_gone $pid'
verdict
