#!/bin/bash
# Includes go down the layers, and only drivers include foreign headers.
. "$(dirname "$0")/lib.sh"

declare -A may=(
	[src/base]="base"
	[src/net]="net base"
	[src/ring]="ring net base"
	[src/sock]="sock ring net base"
	[src/intercept]="intercept sock base"
)
# Headers for tools: base, and layouts that are shared with other processes.
may_tools="base ring/xdp/xdp_steer.h"
# The front command checks interfaces as a program would.
may_vma="$may_tools net/netlink/netlink.h ring/bond/port_bond.h ring/mlx5/port_mlx5.h ring/xdp/xdp_check.h"
# Headers for benchmarks of lower layers.
may_bench="ring net base"

# pattern of a system header -> pattern of the files that may include it
foreign=(
	'infiniband/'		'^(src/ring|tests)/mlx5/'
	'bpf/bpf_(helpers|endian)' '\.bpf\.c$'
	'(bpf|xdp)/'		'^(src/ring/xdp/.*|tools/.*|tests/.*)$'
	'netlink/'		'^(src/net/netlink/[^/]*\.c|src/ring/xdp/xdp_napi\.c|tests/.*)$'
	'pcap'			'^tools/vma/capture/'
	'ck_'			'^(src/.*|tests/(unit|concurrency)/.*|tools/.*)$'
)

# check_ours FILE HEADER: may FILE include our HEADER?
check_ours() {
	local file=$1 header=$2 dir=${1%/*} layer=${2%%/*} ok

	[[ $file =~ ^[^/]*/[^/]* ]]
	case $file in
	src/*) ok=" ${may[${BASH_REMATCH[0]}]:-} " ;;
	tools/bench/*) ok=" $may_bench " ;;
	tools/vma/*) ok=" $may_vma " ;;
	tools/*) ok=" $may_tools " ;;
	*) ok= ;;
	esac
	case $header in
	third_party/* | tools/* | tests/*)
		[[ $file == src/* && $header != third_party/* ]] &&
			complain "$file: $header is not below src"
		return
		;;
	*/*) ;;
	*)
		[[ $file == src/* ]] &&
			complain "$file: \"$header\" does not start at src/, or is a system header"
		return
		;;
	esac
	if [[ -n $ok && $ok != *" $layer "* && $ok != *" $header "* ]]; then
		complain "$file: may not include $header (allowed:$ok)"
	fi
	if [[ $header == *_internal.h && $file != tests/* && $dir/ != "src/${header%/*}/"* ]]; then
		complain "$file: $header is private to its directory"
	fi
}

check_foreign() {
	local file=$1 header=$2 i

	for ((i = 0; i < ${#foreign[@]}; i += 2)); do
		if [[ $header =~ ^${foreign[i]} ]]; then
			[[ $file =~ ${foreign[i + 1]} ]] ||
				complain "$file: <$header> belongs in ${foreign[i + 1]} only"
			return
		fi
	done
}

n=0
last=
while read -r file mark header; do
	if [[ $mark == '"' ]]; then
		check_ours "$file" "$header"
	else
		check_foreign "$file" "$header"
	fi
	[[ $file != "$last" ]] || continue
	n=$((n + 1))
	last=$file
	if [[ $file == src/*.c && -f ${file%.c}.h && src/$header != "${file%.c}.h" ]]; then
		complain "$file: its own header comes first"
	fi
done < <(c_files src tools tests | includes_of_files)
echo "$n files that include others"
((n > 0)) || complain "no files found in $root"
verdict
