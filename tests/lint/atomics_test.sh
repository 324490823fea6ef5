#!/bin/bash
# Each ordered atomic access in src, and each fence, has a reason: a comment that says what it
# "pairs with", or what it "orders".  The comment stands in the statement, ends within the three
# lines above it, or stands directly above the function if that has no other such access.
# Relaxed accesses need none.
. "$(dirname "$0")/lib.sh"

# Rooms that do not comply yet: path prefixes. A room without violations must not be in the list.
unfinished=${1-}

# reasonless FILE...: a line FILE:LINE: CODE for each access without a reason, and a last line
# with the number of accesses.
reasonless() {
	awk '
	# Splits the file into code[line] and comments: text, first line and last line of each.
	function split_comments(   i, rest, at, inside) {
		n_comments = inside = 0
		for (i = 1; i <= n; i++) {
			rest = line[i]
			code[i] = ""
			while (rest != "") {
				if (inside) {
					at = index(rest, "*/")
					text[n_comments] = text[n_comments] " " (at ? substr(rest, 1, at - 1) : rest)
					last[n_comments] = i
					inside = !at
					rest = at ? substr(rest, at + 2) : ""
				} else {
					at = index(rest, "/*")
					code[i] = code[i] (at ? substr(rest, 1, at - 1) : rest)
					rest = at ? substr(rest, at + 2) : ""
					if (at) {
						inside = 1
						first[++n_comments] = i
						last[n_comments] = i
						text[n_comments] = ""
					}
				}
			}
			gsub(/"[^"]*"/, "", code[i])
			sub(/[[:space:]]+$/, "", code[i])
		}
	}
	function is_access(code) {
		return code ~ /__ATOMIC_(CONSUME|ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)|__sync_/ ||
		       code ~ /(^|[^_[:alnum:]])ck_stack_(batch_)?(push|pop)/ ||
		       (code ~ /(^|[^_[:alnum:]])ck_pr_/ && code !~ /ck_pr_(load|store)_|ck_pr_stall/) ||
		       (code ~ /MEMBARRIER_CMD_/ && code !~ /MEMBARRIER_CMD_(QUERY|REGISTER)/)
	}
	function is_open(code) { # a statement that starts or continues here does not end here
		return code != "" && code !~ /^#/ && code !~ /[;{}:]$/
	}
	function statement(i) {
		start = end = i
		if (code[i] ~ /^#/ || code[i - 1] ~ /\\$/) {
			while (start > 1 && code[start - 1] ~ /\\$/)
				start--
			return
		}
		while (start > 1 && is_open(code[start - 1]))
			start--
		while (end < n && is_open(code[end]))
			end++
	}
	# The first line of the function around line i, 0 outside of functions.
	function function_start(i) {
		while (i > 0 && code[i] !~ /^[{}]/)
			i--
		if (code[i] !~ /^\{/)
			return 0
		while (i > 1 && is_open(code[i - 1]))
			i--
		return i
	}
	function gives_reason(comment) {
		gsub(/[[:space:]*]+/, " ", comment)
		return tolower(comment) ~ /pairs with|(^|[^[:alnum:]])orders([^[:alnum:]]|$)/
	}
	function has_reason(from, to,   c) { # a comment that begins or ends in these lines
		for (c = 1; c <= n_comments; c++)
			if ((last[c] >= from && last[c] <= to || first[c] >= from && first[c] <= to) &&
			    gives_reason(text[c]))
				return 1
		return 0
	}
	function judge(   i, k, n_found, at, upto, home, per_function) {
		split("", per_function)
		for (i = 1; i <= n; i++) {
			if (!is_access(code[i]))
				continue
			statement(i)
			if (n_found && at[n_found] == start)
				continue
			at[++n_found] = start
			upto[n_found] = end
			home[n_found] = function_start(i)
			per_function[home[n_found]]++
		}
		total += n_found
		for (k = 1; k <= n_found; k++)
			if (!has_reason(at[k] - 3, upto[k]) &&
			    !(home[k] && per_function[home[k]] == 1 && has_reason(home[k] - 1, home[k] - 1)))
				print file ":" at[k] ": " substr(code[at[k]], match(code[at[k]], /[^[:space:]]/))
	}
	FNR == 1 && NR > 1 { judge_file() }
	function judge_file() { split_comments(); judge(); n = 0 }
	{ file = FILENAME; line[n = FNR] = $0 }
	END { if (n) judge_file(); print total + 0 }' "$@"
}

mapfile -t files < <(c_files src)
mapfile -t found < <(reasonless "${files[@]}")
for room in $unfinished; do
	left=()
	n=0
	for line in "${found[@]}"; do
		if [[ $line == "$room"/* || $line == "$room":* ]]; then
			n=$((n + 1))
		else
			left+=("$line")
		fi
	done
	((n)) || complain "$room: each ordered access has a reason, take it from the list of unfinished rooms"
	echo "$room: $n ordered accesses without a reason"
	found=("${left[@]}")
done
for line in "${found[@]:0:${#found[@]}-1}"; do
	complain "$line: ordered, but why?  Say what it \"pairs with\" or \"orders\""
done
echo "${#files[@]} files, ${found[-1]} ordered accesses"
verdict
