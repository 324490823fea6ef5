#!/bin/bash
# A set-user-id program takes nothing from the environment of the user who executes it: it writes no
# log file with its rights, and inherits no socket.
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

program=$(find_program "${SECURE:-tests/scenario/start/secure}") || exit 1
cp "$program" $netns_tmp/plain && cp "$program" $netns_tmp/secure || exit 1
# The file has another user: the kernel sets AT_SECURE.
chown nobody $netns_tmp/secure && chmod 4755 $netns_tmp/secure || exit 1
chmod 777 $netns_tmp

# run PROGRAM: $out gets its output.
run() {
	out=$(VMA_LOG_FILE=$netns_tmp/log.$1 VMA_TRACELEVEL=debug $netns_tmp/plain hand $netns_tmp/"$1" 2>&1)
	echo "$1: $out"
}

# The log of `hand` itself does not matter.
logged_by() {
	[[ -e $netns_tmp/log.$1 && $(stat -c %U $netns_tmp/log.$1) == "$2" ]]
}

run plain
check "a plain one inherits, and has statistics" test "$out" == "plain: inherited, not told, counted"
check "a plain one logs" logged_by plain root
rm -f $netns_tmp/log.*
run secure
check "a set-user-id one does neither" test "${out##*$'\n'}" == "secure: not inherited, not told, not counted"
rm -f $netns_tmp/log.secure
VMA_LOG_FILE=$netns_tmp/log.secure VMA_TRACELEVEL=debug $netns_tmp/secure look 0
check "a set-user-id one writes no file that others choose" test ! -e $netns_tmp/log.secure
export VMA_CONFIG_FILE=/tmp/libvma.conf VMA_TRACELEVEL=warn
check "a plain one reads the rules that others choose" test "$($netns_tmp/plain tell conf)" == /tmp/libvma.conf
check "a set-user-id one does not" test "$($netns_tmp/secure tell conf)" == /etc/libvma.conf
verdict
