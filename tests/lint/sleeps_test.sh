#!/bin/bash
# The differential tests wait for events: what sleeps by itself to order two threads orders
# them by luck.  moment.c has what to wait with, and let_pass() takes the reason why not.
. "$(dirname "$0")/lib.sh"

# Who looks again each millisecond, until an event or for seconds.
may_sleep='^tests/diff/(moment|worker)\.c:'

# found REGEX: its lines, but for those files.
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
echo "$n sleeps with a reason"
verdict
