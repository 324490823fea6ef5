#!/bin/bash
# Every C file is as clang-format leaves it.  To mend: tests/lint/format_test.sh --fix
. "$(dirname "$0")/lib.sh"

# Tables of X(...) lines are laid out by hand.
by_hand='(_list\.h|src/intercept/calls\.h|src/net/drop\.h|src/sock/core/verdict\.h|third_party/ck_tsan/.*)$'
mapfile -t files < <(c_files src tools tests third_party | grep -vE "$by_hand")
((${#files[@]})) || complain "no files found in $root"
if [[ ${1:-} == --fix ]]; then
	clang-format-14 -style=file -i "${files[@]}"
	exit
fi
clang-format-14 -style=file --dry-run -Werror "${files[@]}" 2>&1 ||
	complain "run tests/lint/format_test.sh --fix"
echo "${#files[@]} files"
verdict
