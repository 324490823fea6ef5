#!/bin/bash
# A program that uses only sockets within the host sees no difference with the library:
#
#	passthrough ---- 127.0.0.1 ---- passthrough
#
# The same calls with and without the library give the same results and errno; and a program that
# opens nothing needs hardly more time and memory.
#
# passthrough_test.sh PROGRAM LIBRARY
set -u
program=$1
library=$(readlink -f "$2")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0
runtime=${SAN_RUNTIME:-}

complain() {
	echo "$*"
	failures=$((failures + 1))
}

preloaded() {
	VMA_TRACELEVEL=${level:-warn} LD_PRELOAD="$runtime $library" "$@"
}

plain() {
	LD_PRELOAD=$runtime "$@"
}

same() {
	plain "$program" transcript > "$tmp/plain" 2> "$tmp/plain.err" ||
		complain "plain: exit status $?"
	"$@" "$program" transcript > "$tmp/preloaded" 2> "$tmp/preloaded.err" ||
		complain "$*: exit status $?"
	diff "$tmp/plain" "$tmp/preloaded" || complain "$*: not as plain (<)"
	[[ -s $tmp/preloaded.err ]] && cat "$tmp/preloaded.err"
	(($(wc -l < "$tmp/plain") > 200)) || complain "the transcript is short"
}

# The runs without the library must be equal, otherwise the comparison proves nothing.
same plain
same preloaded
same env VMA_OFFLOADED_SOCKETS=0 LD_PRELOAD="$runtime $library" VMA_TRACELEVEL=warn
same env VMA_RX_POLL=-1 VMA_SELECT_POLL=-1 LD_PRELOAD="$runtime $library" VMA_TRACELEVEL=warn

# Milliseconds for a hundred runs.
cost() {
	local start i

	start=$(date +%s%N)
	for ((i = 0; i < 100; i++)); do "$@" > /dev/null; done
	echo $((($(date +%s%N) - start) / 1000000))
}

plain "$program" idle > "$tmp/plain"
preloaded "$program" idle > "$tmp/preloaded"
for what in descriptors threads; do
	[[ $(grep "$what" "$tmp/plain") == "$(grep "$what" "$tmp/preloaded")" ]] ||
		complain "idle: $(grep "$what" "$tmp/preloaded"), plain: $(grep "$what" "$tmp/plain")"
done
before=$(awk '/kilobytes/ { print $2 }' "$tmp/plain")
after=$(awk '/kilobytes/ { print $2 }' "$tmp/preloaded")
echo "idle: $before KB plain, $after KB preloaded"
# Sanitizers use additional memory.
[[ -n $runtime ]] || ((after - before < 1024)) || complain "idle: $((after - before)) KB"
# For information only; the machine may be busy.
echo "100 runs: $(cost plain "$program" idle) ms plain, $(cost preloaded "$program" idle) ms preloaded"
exit $((failures > 0))
