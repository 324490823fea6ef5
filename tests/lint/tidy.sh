#!/bin/bash
# clang-tidy on the C files given, else on those that differ from the main line:
# from $BASE, else from where this branch left origin's, else from the last commit.
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
			# On the main line itself: what the last commit changed.
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

flags=(-std=gnu17 -D_GNU_SOURCE -iquote . -iquote src -iquote "$bin" -iquote "$bin/src" -iquote tests
	-DXDP_GROUP_STEPS $(pkg-config --cflags libnl-3.0))
bodies=()
for file in "${files[@]}"; do
	# Headers are looked at through the bodies that include them.
	[[ $file == *.c && $file != *.bpf.c ]] && bodies+=("$file")
done
echo "clang-tidy: ${#bodies[@]} files"
((${#bodies[@]})) || exit 0

one() {
	clang-tidy-14 --quiet "$1" -- "${flags[@]}" 2> "$tmp/$2.err" > "$tmp/$2.out" || touch "$tmp/failed"
	# Its errors proper come on stderr, between counts of what it suppressed.
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
