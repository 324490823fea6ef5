#!/bin/bash
# docs/options.md equals src/sock/core/option_list.h, and the list has every option of the system's
# headers, by its number.
#
#	options_test.sh --write	writes the table anew
. "$(dirname "$0")/lib.sh"

list=src/sock/core/option_list.h
doc=docs/options.md
begin='| level | option | UDP | TCP | remark |'

# LEVEL NAME number UDP TCP "remark"
rows() {
	cpp -P -D'OPTION(l, n, i, u, t, r)=ROW l n i u t r' "$list" | sed -n 's/^ROW //p'
}

table() {
	echo "$begin"
	echo '|---|---|---|---|---|'
	rows | sed -E 's/^(\w+) (\w+) \w+ (\w+) (\w+) "(.*)"$/| \1 | `\2` | \3 | \4 | \5 |/; s/\|  \|$/| |/' |
		sed -E 's/\| (KERNEL6?|READ|REFUSED|TWIN|DONE|GROUP) /\L&/g; s/^\| (IP|IPV6|TCP|UDP) /| IPPROTO_\1 /; s/^\| SOCKET /| SOL_SOCKET /'
}

if [[ ${1-} == --write ]]; then
	text=$(sed "/^$begin\$/,\$d" "$doc")
	{
		echo "$text"
		echo
		table
	} > "$doc.new" && mv "$doc.new" "$doc"
	exit
fi

difference=$(diff <(sed -n "/^$begin\$/,\$p" "$doc") <(table)) ||
	complain "$doc is not $list (tests/lint/options_test.sh --write):" "$difference"

# Numbers in the headers that are not options.
not_options='^(IPV6_(FL_|FLOWINFO_(FLOWLABEL|PRIORITY)|PRIORITY_|TLV_|PMTUDISC_|PREFER_)|SCM_|IP_PMTUDISC_|IP_DEFAULT_|MCAST_(EX|IN)CLUDE|TCP_MSS_|TCP_REPAIR_O|TCP_MD5SIG_(MAX|FLAG)|TCP_RECEIVE_|TCP_AO_(MAXKEYLEN|KEYF)|UDP_ENCAP_|SOL_SOCKET)'
numbers=$(rows | awk '{ print $2, $3 }')
header() {
	grep -hoE "^#[[:space:]]*define[[:space:]]+($1)\w*[[:space:]]+-?[0-9]+\b" "/usr/include/$2" |
		awk '{ sub(/^#[[:space:]]*define/, ""); sub(/_OLD$/, "", $1); print $1, $2 }' |
		grep -vE "$not_options"
}
n=0
while read -r name number; do
	n=$((n + 1))
	grep -qx "$name $number" <<< "$numbers" || complain "$name ($number) is not in $list"
done < <(
	header SO_ asm-generic/socket.h
	header 'IP_|MCAST_' linux/in.h
	header IPV6_ linux/in6.h
	header TCP_ linux/tcp.h
	header UDP_ linux/udp.h
)
((n > 100)) || complain "only $n options found in the headers"
echo "$n options"
verdict
