#!/bin/bash
# What the contract of a function says is held, or is not held, the function asserts.
#
# In headers of src/sock and src/ring, the contract is the text before the first colon, semicolon or
# period of a function's comment, if that begins with a role: "control lock, no ring held: ...".
# A function whose comment begins otherwise has the contract of the banner above it ("---- holder
# ----"), or of the Role of its header: "control lock, ...", or "All other functions: control lock".
# Functions of one file have such contracts of their own comment: control lock, no ring held.
# A Role may name functions with another contract: "f(), g(): any".  Contracts with "or", "unless",
# "without", or parentheses are not judged, nor are those of "app": in a handler of the program, which
# may interrupt the holder of a ring, these functions fail.
#
#	src/sock  control lock	control_assert_held()
#	src/sock  no ring held	control_assert_no_ring()
#	src/ring  holder	ring_assert_held(), if it has a parameter struct ring *
. "$(dirname "$0")/lib.sh"

# Rooms that do not comply yet: path prefixes. A room without violations must not be in the list.
unfinished=${1-}

# contracts FILE...: for each function with a contract, a line FILE NAME ASSERTION... of what it
# should have and lacks; and a last line with the number of contracts. Headers come last.
contracts() {
	awk '
	function strip(s) {
		gsub(/[[:space:]*]+/, " ", s)
		sub(/^ /, "", s)
		sub(/ $/, "", s)
		return s
	}
	# The words of a role at the beginning of a comment, "" if it does not begin with one.
	function role(s,   at) {
		s = tolower(s)
		if (s !~ /^(any|app|pure|holder|the holder|internal|the internal thread|control lock|lock|no ring held|handler)([ ,:;.(]|$)/)
			return ""
		at = match(s, /[:;.]/)
		return at ? substr(s, 1, at - 1) : s
	}
	# The contract that a Role gives to all functions but those that it names, which go to named.
	function header_role(s,   n, i, clause, colon, names, rest) {
		split("", named)
		rest = ""
		n = split(s, clause, /[.;] */)
		for (i = 1; i <= n; i++) {
			colon = index(clause[i], ":")
			if (colon && clause[i] ~ /\(\)/) {
				names = substr(clause[i], 1, colon - 1)
				while (match(names, /[a-z_0-9]+\(\)/)) {
					named[substr(names, RSTART, RLENGTH - 2)] = 1
					names = substr(names, RSTART + RLENGTH)
				}
			} else if (colon && tolower(clause[i]) ~ /(all|other)/) {
				rest = strip(substr(clause[i], colon + 1))
			} else if (i == 1) {
				rest = clause[i]
			}
		}
		sub(/,? (except where|unless said).*/, "", rest)
		return role(rest)
	}
	function note() {
		later[++n_later] = defined SUBSEP full SUBSEP contract_of SUBSEP file
	}
	function judge(name, decl, contract,   in_ring, need, text) {
		text = (file, name) in own ? own[file, name] : body[name]
		if (!(name in body) || contract !~ /control lock|no ring held|holder/ || contract ~ /^app/ ||
		    contract ~ /(^| )(or|unless|without|not|except)( |$)|\(/)
			return
		in_ring = file ~ /^src\/ring\//
		need = ""
		if (!in_ring && contract ~ /control lock/ && text !~ /control_assert_held\(\)/)
			need = need " control_assert_held()"
		if (!in_ring && contract ~ /no ring held/ && text !~ /control_assert_no_ring\(\)/)
			need = need " control_assert_no_ring()"
		if (in_ring && contract ~ /^(the )?holder( of the ring)?(,|$)/ && decl ~ /struct ring \*/ &&
		    text !~ /ring_assert_held\(/)
			need = need " ring_assert_held()"
		total++
		if (need != "")
			print file, name need
	}
	FNR == 1 {
		file = FILENAME
		is_header = file ~ /\.h$/
		comment = banner = the_role = decl = ""
		in_comment = in_body = seen_role = 0
		split("", named)
	}
	in_body { # of a function (pending), or anything else in braces
		if (pending != "") {
			body[pending] = body[pending] "\n" $0
			own[file, pending] = own[file, pending] "\n" $0
		}
		if (/^}/) {
			in_body = 0
			pending = ""
		}
		next
	}
	in_comment || /^\/\*/ {
		if (!in_comment)
			comment = ""
		comment = comment " " $0
		in_comment = !/\*\//
		if (!in_comment) {
			gsub(/\/\*|\*\//, "", comment)
			if (!seen_role && match(comment, /\* Role\t/)) {
				seen_role = 1
				text = substr(comment, RSTART + 6)
				if (match(text, / \* [A-Z][a-z]+\t/))
					text = substr(text, 1, RSTART - 1)
				sub(/ \* *( \*|$).*/, "", text)
				the_role = header_role(strip(text))
				comment = ""
			} else if (comment ~ /^ *---/) {
				gsub(/-/, "", comment)
				comment = strip(comment)
				if (match(comment, /\(.*\)/))
					comment = substr(comment, RSTART + 1, RLENGTH - 2)
				banner = role(comment)
				comment = ""
			}
			comment = strip(comment)
		}
		next
	}
	/^$/ { comment = decl = ""; next }
	/^#/ { skip = /\\$/; next }
	skip { skip = /\\$/; next }
	{
		if (/^\{/) {
			in_body = 1
			pending = defined
			if (pending != "")
				body[pending] = own[file, pending] = ""
			if (pending != "" && (is_header || contract_of ~ /control lock|no ring held/))
				note()
			decl = ""
			next
		}
		decl = decl " " $0
		if (/\{$/) { # a type, or an initializer
			in_body = 1
			pending = decl = ""
			next
		}
		full = decl
		name = decl
		gsub(/__attribute__\(\([^)]*(\([^)]*\))?\)\)/, "", name)
		defined = ""
		if (match(name, /[a-z_0-9]+\(/) && name !~ /^ typedef|^ _Static/)
			defined = substr(name, RSTART, RLENGTH - 1)
		contract_of = ""
		if (!is_header && defined != "") {
			contract_of = role(comment)
		} else if (defined != "" && !(defined in named)) {
			contract_of = role(comment)
			if (contract_of == "")
				contract_of = banner
			if (contract_of == "")
				contract_of = the_role
		}
		if (/;( *\/\*.*)?$/) {
			if (is_header && defined != "")
				note()
			decl = ""
		}
	}
	END {
		for (i = 1; i <= n_later; i++) {
			split(later[i], p, SUBSEP)
			file = p[4]
			judge(p[1], p[2], p[3])
		}
		print total + 0
	}' "$@"
}

mapfile -t files < <(c_files src/sock src/ring)
mapfile -t found < <(contracts "${files[@]}")
for room in $unfinished; do
	left=()
	n=0
	for line in "${found[@]}"; do
		if [[ $line == "$room"/* ]]; then
			n=$((n + 1))
		else
			left+=("$line")
		fi
	done
	((n)) || complain "$room: each contract is asserted, take it from the list of unfinished rooms"
	echo "$room: $n contracts that are not asserted"
	found=("${left[@]}")
done
for line in "${found[@]:0:${#found[@]}-1}"; do
	read -r file name needs <<< "$line"
	complain "$file: $name: its contract needs $needs"
done
echo "${#files[@]} files, ${found[-1]} contracts"
verdict
