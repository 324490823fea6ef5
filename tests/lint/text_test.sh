#!/bin/bash
# Nothing is marked as left to do, and tests check in every build.
. "$(dirname "$0")/lib.sh"

# The brackets prevent this file from finding itself.
left=$(grep -rnIE '\b(TO[D]O|FIX[M]E|X[X]X)\b' src tools tests third_party ./*.bazel ./*.bzl .bazelrc .ci 2> /dev/null)
[[ -z $left ]] || complain "left to do:"$'\n'"$left"

conflicts=$(grep -rnIE '^(<{7}|>{7}) ' ./*.md docs examples include src tools tests ./*.bazel .ci 2> /dev/null)
[[ -z $conflicts ]] || complain "a merge was not finished:"$'\n'"$conflicts"

all=$(c_files src tools tests)

# of FOLDER...: the files of C in them.
of() {
	local IFS='|'

	grep -E "^($*)/" <<< "$all"
}

# assert() is compiled out of the default build, cmocka's assert_*() is not.
bare=$(of tests | grep -v '\.h$' | xargs -r grep -nE '(^|[^_[:alnum:]])assert\(')
[[ -z $bare ]] || complain "use cmocka's assert_true() and friends:"$'\n'"$bare"

while read -r file; do
	complain "$file: the first line is not an SPDX-License-Identifier"
done < <(echo "$all" | xargs -r awk '
	BEGIN {
		for (i = 1; i < ARGC; i++) { # an empty file has no first line
			if ((getline line < ARGV[i]) <= 0 || line !~ /^\/\* SPDX-License-Identifier: /) print ARGV[i]
			close(ARGV[i])
		}
	}')

# Handlers of the program are deferred while a mutex is held: base/mutex.h does that. busy_locks
# (epoll.c, of each set) and hold_current (hold.h) do it as well; handlers cannot reach the other
# mutexes.
bare=$(of src | grep -vE '^src/(base/(mutex\.h|mem\.c)|sock/wait/light\.h|ring/(hold\.h|loop/.*)|intercept/process/inherited\.c)$' |
	xargs -r grep -nE '(pthread_mutex_(try|timed)?|light_)lock\(' | grep -v '^src/sock/wait/epoll\.c:.*&ep->mutex')
[[ -z $bare ]] || complain "use mutex_lock() of base/mutex.h:"$'\n'"$bare"

# The limit for the length of a module.
while read -r lines file; do
	[[ $file != total ]] && ((lines > 600)) && complain "$file: $lines lines"
done < <(of src | xargs -r wc -l)

# An administrator finds each verdict, and what to do about it.
if [[ -e docs/statistics.md || -e src/sock/core/verdict.h ]]; then # not in the trees of plant_test
	verdicts=$(grep -oE '^	X\([A-Z_]+, ".*"\)' src/sock/core/verdict.h | sed -E 's/^[^"]*"//; s/"\)$//')
	(($(wc -l <<< "$verdicts") > 20)) || complain "no verdicts found in src/sock/core/verdict.h"
	IFS= read -rd '' statistics < docs/statistics.md
	while read -r verdict; do
		[[ $verdict == accelerated* || $statistics == *"| $verdict |"* ]] ||
			complain "docs/statistics.md does not say what to do about: $verdict"
	done <<< "$verdicts"
fi

while read -r script; do
	bash -n "$script" || complain "$script: syntax"
done < <(grep -rlIE '^#!/bin/bash' tools tests .ci 2> /dev/null)

# Every test is in a BUILD file.
declare -A rules
while read -r file; do
	build=${file%/*}/BUILD.bazel
	name=${file##*/}
	if [[ ! -v rules[$build] ]]; then
		text=
		[[ ! -f $build ]] || IFS= read -rd '' text < "$build"
		rules[$build]=$text
	fi
	[[ ${rules[$build]} =~ unit_tests\(|glob\(|${name%.c} ]] || complain "$file: no rule in $build"
done < <(of tests | grep '_test\.c$')

# The folder of a test says what it tests: a room of src or a tool, that of its module if there
# is one.
declare -A homes # of a file of C in a module: its folders
while read -r file; do
	[[ $file =~ ^[^/]*/[^/]* ]]
	homes[${BASH_REMATCH[0]}/${file##*/}]+=" ${file%/*} "
done < <(of src tools)
while read -r file; do
	room=${file#tests/*/}
	room=${room%/*}
	[[ $room == tools/* ]] || room=src/$room
	module=${file##*/}
	module=${module%_test.c}.c
	[[ -d $room ]] || complain "$file: there is no $room"
	[[ $room =~ ^[^/]*/[^/]* ]]
	home=${homes[${BASH_REMATCH[0]}/$module]-}
	[[ -z $home || $home == *" $room "* ]] || complain "$file: tests$(printf " %s/$module" $home)"
done < <(of tests/unit tests/concurrency | grep '_test\.c$')
verdict
