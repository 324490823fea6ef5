# Sourced by the benches: the state of the machine, and the samples of each state.
#
# The hypervisor moves virtual processors: the time to pass a cache line between two of them changes
# by a factor of three within minutes, and all results change with it. So the benches probe this
# time before and after each measurement. They discard a measurement during which it changed, and
# compare only measurements of the same state.
#
# Call netns_pick_cpus first; $samples is a file with lines NAME STATE VALUE.

near_ns=150       # below this time for a cache line, both processors are on one die
states=(near far) # (any): all measurements are taken for equal, see compare_any()

# For a test of a bench: what it prints is complete on any machine, and proves nothing about speed.
compare_any() {
	states=(any)
	echo "All states of the machine are taken for equal: the figures must not be compared."
}

# Prints one of $states; nothing when the probe fails.
state() {
	local line

	[[ ${states[0]} != any ]] || {
		echo any
		return
	}
	line=$(timeout 10 "$raw" --cpus "$cpu_client,$cpu_server" --probe) || return
	[[ $line =~ cache_line_ns=([0-9]+) ]] || return
	((BASH_REMATCH[1] < near_ns)) && echo near || echo far
}

# one_round MEASURE NAME...: MEASURE NAME prints nothing, or words: values, or KEY=VALUE. They
# become samples NAME or NAME.KEY. False after $deadline. $no_result: how many printed nothing.
no_result=0
one_round() {
	local measure=$1 name before after word words

	shift
	before=$(state)
	for name in "$@"; do
		((SECONDS < deadline)) || return 1
		words=$($measure "$name")
		after=$(state)
		if [[ -z $words ]]; then
			echo "$name: no result" >&2
			no_result=$((no_result + 1))
		elif [[ -n $before && $before == "$after" ]]; then
			for word in $words; do
				[[ $word == *=* ]] && word=".${word/=/ $before }" || word=" $before $word"
				echo "$name$word" >> "$samples"
			done
		fi
		before=$after
	done
}

# values NAME STATE: the sorted samples.
values() {
	awk -v name="$1" -v state="$2" '$1 == name && $2 == state { print $3 }' "$samples" | sort -n
}

# median NAME STATE [DIGITS]; nothing without samples.
median() {
	values "$@" | awk -v digits="${3:-3}" '{ v[NR] = $1 }
		END { if (NR) printf "%.*f", digits, (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# percentile N NAME STATE; nothing without samples.
percentile() {
	values "${@:2}" | awk -v n="$1" '{ v[NR] = $1 } END { if (NR) print v[int((NR - 1) * n / 100) + 1] }'
}

# processors STATE: what it says of them.
processors() {
	case $1 in
	near) echo "near: a cache line takes under $near_ns ns" ;;
	far) echo "far: a cache line takes over $near_ns ns" ;;
	*) echo "in any state" ;;
	esac
}

# count NAME STATE
count() {
	values "$@" | wc -l
}

# ratio A B: A/B, or a dash when one is missing.
ratio() {
	awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { if (a > 0 && b > 0) printf "%.2f", a / b; else printf "-" }'
}

# exceeds RATIO TARGET
exceeds() {
	awk -v r="$1" -v t="$2" 'BEGIN { exit !(r == "-" || r > t) }'
}
