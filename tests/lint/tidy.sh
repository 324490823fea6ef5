#!/bin/bash
# clang-tidy on the given C files, otherwise on those that differ from the main branch: from $BASE,
# or from the point where this branch left origin's, or from the last commit.
#
#	tests/lint/tidy.sh [--all | file...]
. "$(dirname "$0")/lib.sh"

git() {
	command git -c safe.directory='*' "$@"
}

base() {
	local ref

	for ref in "${BASE:-}" origin/HEAD origin/main; do
		if [[ -n $ref ]] && git rev-parse -q --verify "$ref^{commit}" > /dev/null; then
			# On the main branch itself: the files of the last commit.
			ref=$(git merge-base "$ref" HEAD)
			[[ $ref != "$(git rev-parse HEAD)" ]] && echo "$ref" && return
		fi
	done
	git rev-parse -q --verify HEAD^ || git hash-object -t tree /dev/null
}

changed() {
	local from

	from=$(base)
	git diff --name-only --diff-filter=d "$from" -- src tools tests
	git ls-files --others --exclude-standard -- src tools tests
}

case ${1:-} in
--all) mapfile -t files < <(c_files src tools tests) ;;
'') mapfile -t files < <(changed | sort -u) ;;
*) files=("$@") ;;
esac

flags=(-std=gnu17 -D_GNU_SOURCE -I include -iquote . -iquote src -iquote "$bin" -iquote "$bin/src" -iquote tests
	-DXDP_GROUP_STEPS -DRECORD_RING_STEPS $(pkg-config --cflags libnl-3.0))
bodies=()
for file in "${files[@]}"; do
	# Headers are checked through the files that include them.
	[[ $file == *.c && $file != *.bpf.c ]] && bodies+=("$file")
done
echo "clang-tidy: ${#bodies[@]} files"
((${#bodies[@]})) || exit 0

one() {
	clang-tidy-14 --quiet "$1" -- "${flags[@]}" 2> "$tmp/$2.err" > "$tmp/$2.out" || touch "$tmp/failed"
	# Its real errors are on stderr, between numbers of suppressed warnings.
	grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -header-filter' "$tmp/$2.err" >> "$tmp/$2.out"
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for i in "${!bodies[@]}"; do
	while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n; done
	one "${bodies[i]}" "$i" &
done
wait
cat "$tmp"/*.out
[[ ! -e $tmp/failed ]]
