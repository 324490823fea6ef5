#!/bin/bash
# One load, through the library and through the kernel; tools/soak runs all of them.
#
#	tests/soak/soak.sh LOAD SIDE SECONDS LINES
#
#	cours    v0 10.9.0.1 ---------- v0 10.9.0.2  sours	the library at SIDE
#	ckernel  v0 10.9.0.1 ---------- v0 10.9.0.2  skernel	the kernel on both sides
#
# LOAD is a file of loads/, SIDE is server, client or both.  The pairs are loaded in turns, for
# an equal time of each line, while the servers of both keep running.  At the same time, the pair
# that polls would take the processors from the other one.
#
# A load defines
#
#	sides=(...)		the allowed values of SIDE
#	needs PROGRAM...	the programs that it runs
#	set_up			serve ... for $pair; files are in $work
#	load SECONDS		clients that write their results to $work/results (drive, result)
#	disturb			optional: runs every $every seconds during load
#	finish			optional: after the last line, before the servers are stopped
#
# The measurements go to $record, one line for each line of each pair; judge.py reads it.  They
# also go to descriptor $SOAK_RECORD, if it is set: SOAK_RECORD=9 soak.sh ... 9> FILE
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
seconds=${3:-20} lines=${4:-4}
NETNS_LIMIT=$((2 * seconds + 300))
netns_judges=1
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
slice=$((seconds * 1000 / lines / 2)) # milliseconds for each pair in each line
every=1	 # seconds between disturbances
churns=0 # 1: a connection for each request, so TIME_WAITs exist for a minute
finish() { :; }
. $load_file
[[ " ${sides[*]} " == *" $side "* ]] || die "$1 is not for side $side"

# Programs have their own directories there, which are checked at the end.
mount -t tmpfs -o mode=1777 none /tmp && mount -t tmpfs -o mode=1777 none /dev/shm || die "cannot mount"
files > $netns_tmp/files
ulimit -Hn 100000 2> /dev/null
ulimit -Sn "$(ulimit -Hn)"

# choose PAIR: the functions below use this pair.
choose() {
	pair=$1
	work=${works[$pair]}
	lib_s="" lib_c=""
	[[ $pair == kernel ]] && return
	[[ $side == client ]] || lib_s=$lib
	[[ $side == server ]] || lib_c=$lib
}

# under_load: runs `load`, and the disturbances meanwhile.
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
			sleep 0.02 # the rate of the load
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
	umount -l /tmp # what the verdict is noted in is below it
	netns_conclude
	python3 tests/soak/judge.py $record
}
main "$@"
