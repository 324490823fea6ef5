#!/bin/bash
# docs/parameters.md is what `vma params --markdown` prints, the parameters in libvma.7 are what
# `vma params --man` prints, and every parameter that acts has a test of its effect:
# tests/lint/params.txt.
#
#	params_test.sh VMA [--write]	--write: writes both pages anew
. "$(dirname "$0")/lib.sh"

list=src/base/param/param_list.h
table=tests/lint/params.txt
page=docs/parameters.md
man=docs/man/libvma.7
man_begin='^\.\\" What follows is written by '
man_end='^\.\\" End of what is written'
vma=$1
[[ $vma == /* || -x $vma ]] || vma=$TEST_SRCDIR/$TEST_WORKSPACE/$vma

if [[ ${2-} == --write ]]; then
	"$vma" params --markdown > "$page"
	text=$(sed -n "1,/$man_begin/p" $man; "$vma" params --man; sed -n "/$man_end/,\$p" $man)
	echo "$text" > "$man"
	exit
fi

# The page is the same whatever the environment says.
difference=$(diff "$page" <(VMA_RX_POLL=7 VMA_SPEC=latency "$vma" params --markdown)) ||
	complain "$page is stale (tests/lint/params_test.sh bazel-bin/tools/vma/vma --write):" "$difference"
difference=$(diff <(sed -n "/$man_begin/,/$man_end/p" $man | sed '1d;$d') \
	<(VMA_RX_POLL=7 VMA_SPEC=latency "$vma" params --man)) ||
	complain "$man is stale (likewise):" "$difference"

acts=$(grep -oE '^PARAM_[A-Z]+\([a-z_0-9]+, VMA_[A-Z0-9_]+' "$list" | awk '{ print $2 }' | sort)
n=$(wc -w <<< "$acts")
((n > 40)) || complain "only $n parameters that act found in $list"
named=$(grep -v '^#' "$table" | awk '{ print $1 }' | sort)
# Independent of what `vma` prints.
IFS= read -rd '' pages < $man
for variable in $(grep -oE '^(PARAM|ALWAYS|CARD)_[A-Z]+\(([a-z_0-9]+, )?VMA_[A-Z0-9_]+' "$list" | grep -oE 'VMA_.*'); do
	[[ $pages == *$'\n'".It Ev $variable"$'\n'* ]] || complain "$man does not name $variable"
done
while read -r variable; do
	complain "$variable acts, and $table names no test of its effect"
done < <(comm -23 <(echo "$acts") <(echo "$named"))
while read -r variable; do
	complain "$table: $variable is not a parameter that acts, or stands there twice"
done < <(comm -13 <(echo "$acts") <(echo "$named"))
declare -A texts # of files
while read -r variable file what; do
	if [[ ! -f $file ]]; then
		complain "$table: $variable: there is no $file"
		continue
	fi
	if [[ ! -v texts[$file] ]]; then
		IFS= read -rd '' text < "$file"
		texts[$file]=$text
	fi
	if [[ $what == test_* ]]; then
		# The function, and the list of tests that runs it: a whole word in two lines.
		word="(^|[^[:alnum:]_])$what([^[:alnum:]_]|\$)"
		n_lines=0
		while IFS= read -r line; do
			[[ ! $line =~ $word ]] || n_lines=$((n_lines + 1))
		done <<< "${texts[$file]}"
		((n_lines >= 2)) || complain "$table: $variable: $file does not run $what"
	else
		is_there=0
		while IFS= read -r line && ((!is_there)); do
			[[ $line == *"$what"* && ! $line =~ ^[[:space:]]*# ]] && is_there=1
		done <<< "${texts[$file]}"
		((is_there)) || complain "$table: $variable: $file has no $what"
	fi
done < <(grep -v '^#' "$table")

# Documents name no parameter that is not in the list.
IFS= read -rd '' listed < "$list"
while read -r variable; do
	[[ $listed =~ [\ \(]$variable[,\)] ]] || complain "$variable is in a document and not in $list"
done < <(grep -ohE '\bVMA_[A-Z_]*[A-Z]\b' README.md docs/*.md | grep -vE '^VMA_(VERSION|DEFAULT_APPLICATION_ID|SND_FLAGS_DUMMY|SOCKETXTREME_[A-Z_]+|RING_(PACKET|EXTERNAL_MEM)|(MODIFY_RING|IOCTL)_[A-Z_]+)$' | sort -u)
echo "$n parameters act"
verdict
