# Searches of a model by Spin, for the tests here: they set model, the file; right and wrong, arrays
# of variants; small, what makes a wrong one small, or nothing.
small=

for tool in spin clang-14; do
	command -v $tool > /dev/null && continue
	echo "no $tool: tools/test installs it (as root: apt-get install $tool)"
	exit 1
done

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# A search of millions of states takes longer than it takes to optimise what it spends its time in, which
# stores them; the functions that the model itself becomes are too long to be worth that, and are not
# inlined.
cat > "$tmp/whole.h" << 'EOF'
typedef unsigned char uchar;
typedef struct Trans Trans;
#define INLINE_REV
#define PLAIN __attribute__((noinline, optnone))
PLAIN void settable(void);
PLAIN uchar do_transit(Trans *, short);
PLAIN uchar do_reverse(Trans *, short, uchar);
EOF
# Each: how pan is compiled, and how large its table is.  For one that is right; for an error, which
# appears soon.
whole="-O1 -include whole.h -DCOLLAPSE -w24"
soon="-O0 -w20"

# search HOW VARIANT[,NAME...]: prints how many errors, states; all of Spin's words are in $tmp/out.
search() {
	cd "$tmp" || return 1
	rm -rf pan* *.trail
	# shellcheck disable=SC2086 # options
	{ spin -D${2//,/ -D} -a "$model" &&
		clang-14 -w ${1% *} -DSAFETY -DNOFAIR -DVECTORSZ=1024 -DMEMLIM=4000 -o pan pan.c &&
		./pan -n -m100000 ${1##* }; } > out 2>&1
	sed -nE 's/^State-vector.* errors: ([0-9]+)$/\1/p; s/^ *([0-9]+) states, stored.*/\1/p' out | paste -sd ' '
}

failures=0

verdict() {
	local bad=$1 what=$2

	if [[ -z $bad ]]; then
		echo "ok   $what: $states states, $((SECONDS - start)) s"
	else
		echo "FAIL $what: $bad"
		tail -n 20 "$tmp/out"
		failures=$((failures + 1))
	fi
}

is_right() {
	local variant=$1 errors states reached start=$SECONDS bad=""

	shift
	read -r errors states < <(search "$whole" "$variant")
	reached=$(sed -n 's/^reach //p' "$tmp/out" | sort -nu | paste -sd ' ')
	if [[ ${errors:-} != 0 ]]; then
		bad="errors: ${errors:-none counted}"
	elif grep -qiE '^(error|pan: (reached|out of))|not completed|max search depth' "$tmp/out"; then
		bad="not searched to the end"
	elif [[ $reached != "$*" ]]; then
		bad="reached: $reached, not: $*"
	fi
	verdict "$bad" "$variant"
}

is_found() {
	local errors states start=$SECONDS bad=""

	read -r errors states < <(search "$soon" "$small$1")
	[[ ${errors:-} == 1 ]] || bad="errors: ${errors:-none counted}"
	verdict "$bad" "$1"
}

# With an argument: one variant, by hand.
run() {
	if (($#)); then
		search "$whole" "$1"
		cat "$tmp/out"
		exit
	fi
	for variant in "${right[@]}"; do
		# shellcheck disable=SC2086 # the name, then numbers
		is_right $variant
	done
	for variant in "${wrong[@]}"; do
		is_found "$variant"
	done
	echo "$failures failures"
	((failures == 0))
}
