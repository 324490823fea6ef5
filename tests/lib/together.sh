#!/bin/bash
# Runs tests at the same time, and fails if one of them fails.
#
#	together.sh COMMAND [ARG...] [-- COMMAND [ARG...]]...
#
# For tests that wait most of the time, or use one processor, and do not measure time: each has
# namespaces of its own.  Their output follows one after the other.
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'kill "${pids[@]}" 2> /dev/null; wait; exit 130' INT TERM HUP
names=()
pids=()

# begin COMMAND [ARG...]
begin() {
	"$@" > "$dir/${#pids[@]}" 2>&1 < /dev/null &
	pids+=($!)
	names+=("$*")
}

command=()
for word in "$@" --; do
	if [[ $word != -- ]]; then
		command+=("$word")
	elif ((${#command[@]})); then
		begin "${command[@]}"
		command=()
	fi
done
((${#pids[@]})) || exit 2
failed=0
for i in "${!pids[@]}"; do
	wait "${pids[i]}"
	rc=$?
	echo "=== ${names[i]}: $rc"
	cat "$dir/$i"
	((rc == 0)) || failed=1
done
exit $failed
