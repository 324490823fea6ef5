# Sourced by tests that are tables: a list of `row` calls, run in $lanes lanes at a time.
#
# The test has $chosen, a regular expression of the rows that are wanted, and
#
#	lane_begin LANE		the network of a lane
#	run_row TEXT NUMBER	false: it failed; $lane is the lane's number

rows=()

row() {
	[[ "$*" =~ $chosen ]] && rows+=("$*")
	return 0
}

# Every lanes-th row, from the lane's number on.
run_lane() {
	local lane=$1 i failed=0

	trap - EXIT
	lane_begin "$lane"
	for ((i = lane; i < ${#rows[@]}; i += lanes)); do
		run_row "${rows[i]}" $i || failed=$((failed + 1))
	done
	return $((failed > 100 ? 100 : failed))
}

# Returns the number of failed rows, 200 at most.
run_lanes() {
	local lane pids=() failed=0 pid

	((${#rows[@]})) || die "no row matches $chosen"
	for ((lane = 0; lane < lanes && lane < ${#rows[@]}; lane++)); do
		run_lane $lane &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || failed=$((failed + $?))
	done
	netns_conclude
	return $((failed > 200 ? 200 : failed))
}
