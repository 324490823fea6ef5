#!/bin/bash
# Tests wait for events: a sleep orders two threads only by luck.
#
# The differential tests: moment.c has the functions that wait, and let_pass() takes the reason for an
# exception.  Scripts: await waits, and a line that only sleeps ends with the reason in a comment.
# What runs in the background does so by netns_exec or netns_spawn: after `in_ns ... &`, $! is a shell, and its
# command outlives it.
. "$(dirname "$0")/lib.sh"

# Files that poll each millisecond, until an event or for seconds.
may_sleep='^tests/diff/(moment|worker)\.c:'

# found REGEX: matching lines, except in those files.
found() {
	c_files tests/diff | xargs -r grep -nHE "$1" | grep -vE "$may_sleep"
}

bare=$(found '\b((u|nano|clock_nano)?sleep|thrd_sleep|poll\(NULL) *[(,]')
[[ -z $bare ]] || complain "wait for the event (tests/diff/diff.h, the right moment):"$'\n'"$bare"

n=0
while read -r line; do
	[[ $line =~ let_pass\([^,]*,\ \"[^\"]{15,} ]] || complain "$line: sleeps, but why?"
	n=$((n + 1))
done < <(found '\blet_pass\(' | grep -v 'void let_pass(')
while read -r line; do
	[[ $line =~ \#\ .{8,} ]] || complain "$line: sleeps, but why? (await, tools/lib/netns.sh)"
	n=$((n + 1))
done < <(grep -rnE '^[[:space:]]*sleep [0-9.]+' tests --include='*.sh')
background=$(grep -rnE '\bin_ns .*[^&>]& *$' tests tools --include='*.sh')
[[ -z $background ]] || complain "killed, its command lives on (netns_exec, tools/lib/netns.sh):"$'\n'"$background"
echo "$n sleeps with a reason"
verdict
