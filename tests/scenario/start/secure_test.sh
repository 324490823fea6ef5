#!/bin/bash
# A set-user-id program takes nothing from the environment of who executes it: no log file
# is written with its rights, and no socket is taken for an inherited one.
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

program=$(find_program "${SECURE:-tests/scenario/start/secure}") || exit 1
cp "$program" $netns_tmp/plain && cp "$program" $netns_tmp/secure || exit 1
# The user of the file, which is not ours: the kernel sets AT_SECURE.
chown nobody $netns_tmp/secure && chmod 4755 $netns_tmp/secure || exit 1
chmod 777 $netns_tmp

# run PROGRAM: $out is what it says.
run() {
	out=$(VMA_LOG_FILE=$netns_tmp/log.$1 VMA_TRACELEVEL=debug $netns_tmp/plain hand $netns_tmp/"$1" 2>&1)
	echo "$1: $out"
}

# What hand itself logs is not of interest.
logged_by() {
	[[ -e $netns_tmp/log.$1 && $(stat -c %U $netns_tmp/log.$1) == "$2" ]]
}

run plain
check "a plain one inherits" test "$out" == "plain: inherited, not told"
check "a plain one logs" logged_by plain root
rm -f $netns_tmp/log.*
run secure
check "a set-user-id one does not inherit" test "${out##*$'\n'}" == "secure: not inherited, not told"
rm -f $netns_tmp/log.secure
VMA_LOG_FILE=$netns_tmp/log.secure VMA_TRACELEVEL=debug $netns_tmp/secure look 0
check "a set-user-id one writes no file that others name" test ! -e $netns_tmp/log.secure
verdict
