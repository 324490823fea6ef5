# Sourced by the lint tests: where the tree is, and how to complain.
#
# They look at the checkout itself, not at Bazel's copy of declared inputs, so
# that no file escapes; hence the tags local and external in BUILD.bazel.

set -u
lint_dir=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
root=${LINT_ROOT:-$(readlink -f "$lint_dir/../..")}
# Generated headers; from a test's own place in bazel-out, else the last build's.
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

# C files that are ours to judge: existing, wanted by git or about to be.
c_files() {
	if [[ -e .git ]]; then
		git -c safe.directory='*' ls-files --cached --others --exclude-standard -- "$@"
	else
		find "$@" -type f 2> /dev/null
	fi | grep -E '\.[ch]$' | sort -u | while read -r f; do
		[[ -f $f ]] && echo "$f"
	done
}

# includes_of FILE: a line for each include, the mark it begins with (" or <) and the header.
includes_of() {
	sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*(["<])([^">]+)[">].*/\1 \2/p' "$1"
}
