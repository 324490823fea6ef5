#!/bin/bash
# Every header compiles alone, with both compilers.  Those of src with a file of C beside them do in each build: that
# file includes its own header first (includes_test.sh).
. "$(dirname "$0")/lib.sh"

# A list of X(...) lines does not compile alone.
is_list='(_list\.h|src/intercept/calls\.h)$'
flags=(-std=gnu17 -D_GNU_SOURCE -fsyntax-only -Wall -Wextra -Werror -Wno-unused-parameter
	-Wno-unused-function -Wstrict-prototypes -Wmissing-prototypes
	-iquote . -iquote src -iquote "$bin" -iquote "$bin/src" -iquote tests -I include
	$(pkg-config --cflags libnl-3.0))

check() {
	local header=$1 cc

	for cc in gcc clang-14; do
		# Included twice, to check the include guard.
		printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
			$cc "${flags[@]}" -x c - 2>&1 ||
			echo "$header: does not compile alone with $cc"
	done
}

mapfile -t headers < <(c_files src tools tests | grep '\.h$' | grep -vE "$is_list")
out=$(for h in "${headers[@]}"; do
	[[ $h != src/* || ! -f ${h%.h}.c ]] || continue
	while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n; done
	check "$h" &
done
wait)
if [[ -n $out ]]; then
	complain "$out"
fi
while read -r h guard; do
	(($(grep -cE "^#(ifndef|define) $guard\$" "$h") == 2)) || complain "$h: no include guard $guard"
done < <(printf '%s\n' "${headers[@]}" | awk '!/^tests/ { guard = toupper($1); sub(/^SRC\//, "", guard); gsub(/[\/.-]/, "_", guard); print $1, guard }')
echo "${#headers[@]} headers"
((${#headers[@]})) || complain "no headers found in $root"
verdict
