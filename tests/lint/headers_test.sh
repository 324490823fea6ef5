#!/bin/bash
# Every header compiles alone, with both compilers.  Those of src with a file of C beside them do in each build: that
# file includes its own header first (includes_test.sh).
. "$(dirname "$0")/lib.sh"

# A list of X(...) lines does not compile alone.
is_list='(_list\.h|src/intercept/calls\.h)$'
flags=(-std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-parameter
	-Wno-unused-function -Wstrict-prototypes -Wmissing-prototypes
	-iquote . -iquote src -iquote "$bin" -iquote "$bin/src" -iquote tests -I include
	$(pkg-config --cflags libnl-3.0))
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# A compiler needs more time to start than for a header: so gcc's driver gets many files, and clang is the one in
# clang-tidy, which starts once and has a compiler of its own for each file.  If one is wrong, each is asked for.
with_gcc() {
	gcc "${flags[@]}" -fsyntax-only "$@" > /dev/null 2>&1
}

with_clang() {
	clang-tidy-14 --quiet --config='{}' --checks='-*,misc-misplaced-const' --header-filter='.*' \
		--warnings-as-errors='*' "$@" -- "${flags[@]}" > /dev/null 2>&1
}

# check HEADER FILE: with each compiler alone, which says what is wrong.
check() {
	local cc

	for cc in gcc clang-14; do
		$cc "${flags[@]}" -fsyntax-only "$2" 2>&1 || echo "$1: does not compile alone with $cc"
	done
}

mapfile -t headers < <(c_files src tools tests | grep '\.h$' | grep -vE "$is_list")
alone=() files=()
for h in "${headers[@]}"; do
	[[ $h != src/* || ! -f ${h%.h}.c ]] || continue
	alone+=("$h")
	files+=("$tmp/${#files[@]}.c")
	# Included twice, to check the include guard.
	printf '#include "%s"\n#include "%s"\n' "$h" "$h" > "${files[-1]}"
done
if ((${#files[@]})); then
	half=$(((${#files[@]} + 1) / 2))
	jobs=()
	for job in "with_gcc ${files[*]:0:half}" "with_gcc ${files[*]:half}" "with_clang ${files[*]}"; do
		[[ $job == *.c ]] || continue
		$job &
		jobs+=($!)
	done
	good=1
	for job in "${jobs[@]}"; do wait "$job" || good=0; done
	if ((!good)); then
		out=$(for i in "${!alone[@]}"; do check "${alone[i]}" "${files[i]}"; done)
		complain "${out:-the compilers find nothing wrong in single headers, but in all}"
	fi
fi
# The guard has the header's name; those of tests have any.
while read -r complaint; do
	complain "$complaint"
done < <(printf '%s\n' "${headers[@]}" | grep -v '^tests' | xargs -r awk '
	BEGIN {
		for (i = 1; i < ARGC; i++) {
			guard = toupper(ARGV[i])
			sub(/^SRC\//, "", guard)
			gsub(/[\/.-]/, "_", guard)
			n = 0
			while ((getline line < ARGV[i]) > 0)
				n += line == "#ifndef " guard || line == "#define " guard
			close(ARGV[i])
			if (n != 2)
				print ARGV[i] ": no include guard " guard
		}
	}')
echo "${#headers[@]} headers"
((${#headers[@]})) || complain "no headers found in $root"
verdict
