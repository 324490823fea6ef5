#!/bin/bash
# Which measurements are compared: state.sh with a probe that says what the test wants.
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. tools/bench/state.sh

failures=0
cpu_client=0
cpu_server=1
raw=$dir/probe
samples=$dir/samples
deadline=$((SECONDS + 300))
cat > "$raw" << 'END'
#!/bin/bash
read -r first < "$0.next" || exit 1
sed -i 1d "$0.next"
[[ $first == fails ]] && exit 1
echo "cache_line_ns=$first"
END
chmod +x "$raw"

# probes NS...: what the next probes say.
probes() {
	printf '%s\n' "$@" > "$raw.next"
	: > "$samples"
	no_result=0
}

# check WHAT IS WANTED
check() {
	[[ $2 == "$3" ]] && return
	echo "$1: $2, wanted $3"
	failures=$((failures + 1))
}

measure() {
	case $1 in
	nothing) ;;
	keys) echo "a=1 b=2.5" ;;
	*) echo "${1#v}" ;;
	esac
}

probes 60 70 149 150 260
one_round measure v1 v2 v3 v4
check "changed during one" "$(xargs < "$samples")" "v1 near 1 v2 near 2 v4 far 4"

probes 60 fails 60 60
one_round measure v1 v2 v3
check "without a probe before or after" "$(xargs < "$samples")" "v3 near 3"

probes 200 200 200 200
one_round measure v1 nothing keys
check "keys" "$(xargs < "$samples")" "v1 far 1 keys.a far 1 keys.b far 2.5"
check "without result" $no_result 1 2> /dev/null

probes 60
deadline=0
one_round measure v1
check "after the deadline" "$?$(cat "$samples")" 1
deadline=$((SECONDS + 300))

probes
compare_any > /dev/null
one_round measure v7 nothing v7
check "any state" "$(xargs < "$samples")" "v7 any 7 v7 any 7"
check "any state, without result" $no_result 1

printf 'x near %s\n' 10 30 20 40 > "$samples"
printf 'x far 1000\ny near 1000\n' >> "$samples"
check "median of four" "$(median x near 1)" 25.0
check "median of none" "$(median z near)" ""
check "percentile 50" "$(percentile 50 x near)" 20
check "percentile 100" "$(percentile 100 x near)" 40
check "count" "$(count x near)" 4
check "ratio" "$(ratio 3 2)" 1.50
check "ratio of none" "$(ratio "" 2)" -
for row in "1.41 1.4 0" "1.40 1.4 1" "- 1.4 0"; do
	read -r value target wanted <<< "$row"
	exceeds "$value" "$target"
	check "exceeds $row" $? "$wanted"
done
((failures == 0)) && echo "passed"
exit $((failures > 0))
