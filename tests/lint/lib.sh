# Sourced by the lint tests: the place of the tree, and functions to report violations. The tests
# read the checkout itself, not Bazel's copy of declared inputs, so that they see every file; hence
# the tags local and external in BUILD.bazel.

set -u
lint_dir=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
root=${LINT_ROOT:-$(readlink -f "$lint_dir/../..")}
# Generated headers: relative to the test in bazel-out, otherwise from the last build.
bin=${RUNFILES_DIR:-${TEST_SRCDIR:-}}
if [[ $bin == */bin/* ]]; then
	bin=${bin%%/bin/*}/bin
else
	bin=$root/bazel-bin
fi
cd "$root" || exit 2

failures=0

complain() {
	echo "$*"
	failures=$((failures + 1))
}

# Exit status of the test.
verdict() {
	if ((failures)); then
		echo "$failures complaints"
		exit 1
	fi
	exit 0
}

# C files of the project that exist and that git tracks or would track.
c_files() {
	if [[ -e .git ]]; then
		git -c safe.directory='*' ls-files --cached --others --exclude-standard -- "$@"
	else
		find "$@" -type f 2> /dev/null
	fi | sort -u | while read -r f; do
		[[ $f == *.[ch] && -f $f ]] && echo "$f"
	done
}

# Of the files whose names it reads, a line for each include: the file, the opening mark (" or <), and the header.
includes_of_files() {
	xargs -r grep -HE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' |
		sed -nE 's/^([^:]+):[[:space:]]*#[[:space:]]*include[[:space:]]*(["<])([^">]+)[">].*/\1 \2 \3/p'
}
