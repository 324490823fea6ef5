#!/bin/bash
# tests/lint/libc_calls.txt lists every function that the C library exports, and agrees with what
# libvma.so exports, with the headers, and with the documents that it names.
#
#	libc_test.sh [LIBVMA [LIBC [PROTOTYPES]]]
#
# PROTOTYPES: a file with what the headers declare; it is written if it is not there.
. "$(dirname "$0")/lib.sh"

lib=${1:-$bin/libvma.so}
[[ $lib == /* ]] || lib=$TEST_SRCDIR/$TEST_WORKSPACE/$lib
libc=${2:-$(gcc -print-file-name=libc.so.6)}
table=tests/lint/libc_calls.txt
tmp=$(mktemp -d)
prototypes=${3:-$tmp/prototypes}
trap 'rm -rf "$tmp"' EXIT
# For comm and join.
export LC_ALL=C

# ADDRESS NAME of each function. Names of version GLIBC_PRIVATE are for the C library itself.
functions() {
	nm -D --defined-only "$1" | awk '$2 ~ /^[TWi]$/ && $3 !~ /@GLIBC_PRIVATE$/ {
		sub(/@.*/, "", $3)
		print $1, $3
	}' | sort -u
}

functions "$libc" > "$tmp/addresses"
cut -d' ' -f2 "$tmp/addresses" | sort -u > "$tmp/libc"
[[ -s $tmp/libc ]] || complain "no functions in $libc"
functions "$lib" | cut -d' ' -f2 | sort -u > "$tmp/exported"

# The table as NAME KIND TEXT: a heading has KIND and TEXT, the indented lines below it the names.
awk '/^(#|$)/ { next }
	/^[a-z]/ { kind = $1; sub(/:$/, "", kind); text = $0; sub(/^[^ ]* */, "", text); next }
	{ for (i = 1; i <= NF; i++) print $i, kind, text }' "$table" | sort > "$tmp/words"
# The same as NAME KIND, with the names that patterns match.
grep '^[^ ]*[*?[]' "$tmp/words" > "$tmp/patterns"
grep -v '^[^ ]*[*?[]' "$tmp/words" > "$tmp/named"
awk '{ print $1, $2 }' "$tmp/named" > "$tmp/kinds"
: > "$tmp/by_pattern"
while read -r line; do
	complain "$line"
done < <(awk '
	FILENAME ~ /\/libc$/ { names[++n] = $1; next }
	FILENAME ~ /\/kinds$/ { kind[$1] = $2; next }
	$2 != "unrelated" { print $1 ": only what is unrelated may be a pattern" }
	{
		regex = $1
		gsub(/\*/, ".*", regex)
		gsub(/\?/, ".", regex)
		regex = "^" regex "$"
		matched = 0
		for (i = 1; i <= n; i++) {
			if (names[i] !~ regex)
				continue
			matched = 1
			if (!(names[i] in kind))
				print names[i], "unrelated" > by_pattern
			else if (kind[names[i]] != "unrelated")
				print $1 ": matches " names[i] ", which is " kind[names[i]]
		}
		if (!matched)
			print $1 ": matches nothing in the C library"
	}' by_pattern="$tmp/by_pattern" "$tmp/libc" "$tmp/kinds" "$tmp/patterns")
sort -u -o "$tmp/by_pattern" "$tmp/by_pattern"
sort -o "$tmp/kinds" "$tmp/kinds" "$tmp/by_pattern"

while read -r name; do
	complain "$name: is in $table twice"
done < <(cut -d' ' -f1 "$tmp/kinds" | uniq -d)
while read -r name; do
	complain "$name: the C library has it, $table has not. Find out what it does with" \
		"descriptors, and list it there: as ours (and replace it), as harmless (and why)," \
		"as documented (and where), or as unrelated."
done < <(cut -d' ' -f1 "$tmp/kinds" | sort -u | comm -13 - "$tmp/libc")
while read -r name; do
	complain "$name: $table has it, the C library has not"
done < <(cut -d' ' -f1 "$tmp/kinds" | sort -u | comm -23 - "$tmp/libc")

# ---- requirements of each kind ------------------------------------------------------------

of_kind() {
	awk -v kind="$1" '$2 == kind { print $1 }' "$tmp/kinds" | sort -u
}

difference=$(diff <(of_kind ours) "$tmp/exported") ||
	complain "ours in $table (<) and what $(basename "$lib") exports (>) differ:" "$difference"
while read -r name kind text; do
	case $kind in
	ours | unrelated) ;;
	harmless)
		[[ $text == because\ * ]] || complain "$name: is harmless, but no \"because\" says why"
		;;
	documented)
		[[ -f $text ]] && grep -qw -- "$name" "$text" ||
			complain "$name: $text does not mention it"
		;;
	*) complain "$name: $kind is no kind" ;;
	esac
done < "$tmp/named"

# Two names at one address are one function.
join <(sort -k2 "$tmp/addresses" | awk '{ print $2, $1 }') "$tmp/kinds" |
	awk '{
		for (i = 1; i <= n[$2]; i++) {
			if ((kind[$2, i] == "ours") != ($3 == "ours"))
				print $1 " (" $3 ") and " name[$2, i] " (" kind[$2, i] ") are one function"
			else if ((kind[$2, i] == "unrelated") != ($3 == "unrelated"))
				print $1 " (" $3 ") and " name[$2, i] " (" kind[$2, i] ") are one function"
		}
		name[$2, ++n[$2]] = $1
		kind[$2, n[$2]] = $3
	}' > "$tmp/bad"
while read -r line; do complain "$line"; done < "$tmp/bad"

# ---- functions with a descriptor, from the headers ----------------------------------------

# NAME (PARAMETERS) of every function in the headers, also under the name that __asm__ gives it.
# Some headers are not for programs and say #error.
if [[ ! -s $prototypes ]]; then
	dpkg -L libc6-dev | grep '/include/.*\.h$' | grep -vE '/(bits|gnu)/' |
		sed -E 's,/usr/include/([a-z0-9_]+-linux-gnu[a-z0-9]*/)?,,; s,.*,#include <&>,' |
		gcc -E -P -O2 -D_GNU_SOURCE -D_FORTIFY_SOURCE=2 -x c - 2> "$tmp/errors" |
		tr '\n\t' '  ' | tr ';{}' '\n\n\n' |
		sed -nE 's/^ *([^(=]*[^A-Za-z0-9_(=])?([A-Za-z_][A-Za-z0-9_]*) *(\(.*)$/\2 \3/p' |
		sed -E 's/^\w+ (.*__asm__ \("" "(\w+)".*)/&\n\2 \1/' > "$prototypes"
fi
n=$(cut -d' ' -f1 "$prototypes" | sort -u | comm -12 - "$tmp/libc" | wc -l)
((n * 4 > $(wc -l < "$tmp/libc") * 2)) || complain "prototypes of $n functions only:" "$(head "$tmp/errors" 2>&1)"

int='\bint \*?_*(\w*fd[0-9a-z]*|fildes|\w*des|sock\w*|s|a?master|a?slave)\b'
types='\b(DIR|_*FILE|fd_set|mqd_t|posix_spawn_file_actions_t|struct (aiocb|aiocb64|mmsghdr|msghdr|pollfd))\b'
grep -E "$int|$types" "$prototypes" | cut -d' ' -f1 | sort -u | comm -12 - "$tmp/libc" > "$tmp/takers"
while read -r name; do
	complain "$name: is not unrelated, it takes" \
		"$(grep -m1 "^$name (" "$prototypes" | grep -oE "$int|$types" | head -1)"
done < <(comm -12 "$tmp/takers" <(of_kind unrelated))

for kind in ours harmless documented unrelated; do
	echo "$kind: $(of_kind "$kind" | wc -l)"
done
echo "$(wc -l < "$tmp/takers") functions take a descriptor by their prototypes, of $n that have one"
verdict
