#!/bin/bash
# One load, through the library and through the kernel; tools/soak runs them all.
#
#	tests/soak/soak.sh LOAD SIDE SECONDS LINES
#
#	cours    v0 10.9.0.1 ---------- v0 10.9.0.2  sours	the library at SIDE
#	ckernel  v0 10.9.0.1 ---------- v0 10.9.0.2  skernel	the kernel on both sides
#
# LOAD is a file of loads/, SIDE server, client or both.  The pairs are loaded in turns, for
# an equal time of each line, while the servers of both go on: at the same time they would take
# the processors from each other, and what is measured would be who polls.
#
# A load defines
#
#	sides=(...)		what SIDE may be
#	needs PROGRAM...	what it runs
#	set_up			serve ... for $pair; what it needs is in $work
#	load SECONDS		clients that put what they measured into $work/results (drive, result)
#	disturb			may be left out: it is run every $every seconds while load runs
#	finish			may be left out: after the last line, before the servers are stopped
#
# What is seen is written to $record, a line for each line of each pair; judge.py reads that.  It
# is written to descriptor $SOAK_RECORD, too, if there is one: SOAK_RECORD=9 soak.sh ... 9> FILE
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
seconds=${3:-20} lines=${4:-4}
NETNS_LIMIT=$((2 * seconds + 300))
. tools/lib/netns.sh
netns_enter "$self" "$@"
. tests/soak/programs.sh
. tests/soak/sample.sh

load_file=tests/soak/loads/${1:-}.sh
[[ -f $load_file ]] || die "no load ${1:-}"
side=$2
[[ -n $lib ]] || die "no library"
gauge=$(find_program tests/soak/gauge) || exit 1
record=$netns_tmp/record
ids=$netns_tmp/ids
declare -A served=() works=([ours]=$netns_tmp/ours [kernel]=$netns_tmp/kernel)
slice=$((seconds * 1000 / lines / 2)) # milliseconds of each pair in each line
every=1	 # seconds between disturbances
churns=0 # 1: a connection for each request, so there are TIME_WAITs for a minute
finish() { :; }
. $load_file
[[ " ${sides[*]} " == *" $side "* ]] || die "$1 is not for side $side"

# What programs leave there is theirs, and is looked for at the end.
mount -t tmpfs -o mode=1777 none /tmp && mount -t tmpfs -o mode=1777 none /dev/shm || die "cannot mount"
files > $netns_tmp/files
ulimit -Hn 100000 2> /dev/null
ulimit -Sn "$(ulimit -Hn)"

# choose PAIR: what follows is about this one.
choose() {
	pair=$1
	work=${works[$pair]}
	lib_s="" lib_c=""
	[[ $pair == kernel ]] && return
	[[ $side == client ]] || lib_s=$lib
	[[ $side == server ]] || lib_c=$lib
}

# under_load: `load`, and the disturbances while it goes on.
under_load() {
	local pid next=$(($(uptime_ms) + every * 1000)) now

	load "$(awk -v ms=$slice 'BEGIN { print ms / 1000 }')" &
	pid=$!
	if declare -F disturb > /dev/null; then
		until is_gone $pid; do
			now=$(uptime_ms)
			if ((now >= next)); then
				disturb
				next=$((next + every * 1000))
			fi
			sleep 0.02
		done
	fi
	wait $pid
}

# one_slice LINE
one_slice() {
	local before

	: > "$work/results"
	before=$(counters)
	under_load
	write_sample "$1" "$before" >> $record
}

run_lines() {
	local n

	for ((n = 1; n <= lines; n++)); do
		for pair in ours kernel; do
			choose $pair
			one_slice $n
		done
		show_line $n
	done
}

main() {
	echo "load $1 side $side seconds $seconds lines $lines churns $churns" > $record
	for pair in ours kernel; do
		mkdir -p "${works[$pair]}"
		chmod 777 "${works[$pair]}"
		netns_pair $pair
		choose $pair
		set_up || die "$1 $side: set-up failed: $(tail -n 5 "$work"/*.log)"
	done
	show_heading
	run_lines
	for pair in ours kernel; do
		choose $pair
		: > "$work/results"
		finish
		write_finish >> $record
		stop_all
	done
	show_errors
	write_left >> $record
	write_warnings >> $record
	[[ -z ${SOAK_RECORD:-} ]] || cat $record >&"$SOAK_RECORD"
	python3 tests/soak/judge.py $record
}
main "$@"
