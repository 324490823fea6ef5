#!/bin/bash
# Rooms of a layer stand in an order: a file includes headers of its room and of those before
# it, and calls functions of these only.  What goes up goes through tables (sock/core/kind.h).
#
#	rooms_test.sh [ARCHIVE]		of src/sock, whose symbols say who calls whom
. "$(dirname "$0")/lib.sh"

archive=${1:-$bin/src/sock/libsock.a}
[[ $archive == /* ]] || archive=$TEST_SRCDIR/$TEST_WORKSPACE/$archive

# The first one is the lowest; "." are files of the layer's own folder.
sock_rooms=(core options wait udp tcp local move share .)
# layer, room: which other rooms of the layer it may not include
apart=(
	net tcp 'netlink'
	net . 'netlink'
	ring . 'mlx5 xdp packet loop team bond'
	ring mlx5 'xdp packet loop team bond'
	ring xdp 'mlx5 loop team bond'
	ring packet 'mlx5 xdp loop team bond'
	ring loop 'mlx5 xdp packet team bond'
	ring team 'mlx5 xdp packet loop bond'
	ring bond 'mlx5 packet loop'
)
# Variables that lower rooms read and lifecycle.c defines.
tables='sock_kinds sock_upcalls'
circle_max=8 # files of one room that call each other

declare -A place
for ((i = 0; i < ${#sock_rooms[@]}; i++)); do
	place[${sock_rooms[i]}]=$i
done

# A room is the first folder of a path below the layer, or ".".
room_of='function room_of(path) { return path ~ "/" ? substr(path, 1, index(path, "/") - 1) : "." }'

all=$(c_files src)
included=$(includes_of_files <<< "$all")

# includes LAYER: FILE ROOM ROOM-OF-HEADER HEADER
includes() {
	awk -v layer="$1" "$room_of"'
		$2 == "\"" && index($3, layer "/") == 1 && index($1, "src/" layer "/") == 1 {
			print $1, room_of(substr($1, length("src/" layer "/") + 1)),
				room_of(substr($3, length(layer "/") + 1)), $3
		}' <<< "$included"
}

while read -r file room other header; do
	if [[ -z ${place[$room]:-} ]]; then
		complain "$file: $room is no room of src/sock (${sock_rooms[*]})"
	elif [[ -z ${place[$other]:-} ]] || ((place[$other] > place[$room])); then
		complain "$file: $header is above $room"
	fi
done < <(includes sock)

declare -A layers are_apart # LAYER; LAYER ROOM OTHER
for ((i = 0; i < ${#apart[@]}; i += 3)); do
	layers[${apart[i]}]=1
	for other in ${apart[i + 2]}; do are_apart[${apart[i]} ${apart[i + 1]} $other]=1; done
done
for layer in "${!layers[@]}"; do
	while read -r file room other header; do
		[[ ${are_apart[$layer $room $other]:-} ]] && complain "$file: $header is apart from $layer/$room"
	done < <(includes "$layer")
done

# Symbols: OBJECT TYPE NAME, with objects named after their files.
symbols=$(nm -A "$archive" | sed -nE 's/.*:([A-Za-z0-9_]+)(\.pic)?\.o: *[0-9a-f]* +([A-Za-z]) (.*)/\1 \3 \4/p')
[[ -n $symbols ]] || complain "no symbols in $archive"
rooms=$(grep '^src/sock/.*\.c$' <<< "$all" | awk -F/ "$room_of"'
	{ print substr($NF, 1, length($NF) - 2), room_of(substr($0, length("src/sock/") + 1)) }')
twice=$(cut -d' ' -f1 <<< "$rooms" | sort | uniq -d)
[[ -z $twice ]] || complain "two files of src/sock have one name: $twice"

calls=$(awk -v tables="$tables" '
	BEGIN { split(tables, t, " "); for (i in t) skip[t[i]] = 1 }
	FNR == NR { room[$1] = $2; next }
	$2 == "U" { uses[$1 " " $3] = 1; next }
	$2 ~ /[TDBRVW]/ { at[$3] = $1 }
	END {
		for (u in uses) {
			split(u, p, " ")
			to = at[p[2]]
			if (to != "" && to != p[1] && !(p[2] in skip))
				print p[1], room[p[1]], to, room[to], p[2]
		}
	}' <(echo "$rooms") <(echo "$symbols"))
n=0
while read -r from room to other symbol; do
	[[ -n $from ]] || continue
	n=$((n + 1))
	((place[${other:-.}] <= place[${room:-.}])) ||
		complain "src/sock: $from ($room) calls up: $symbol of $to ($other)"
done <<< "$calls"
((n)) || complain "no calls found in $archive"

# Files that reach each other by calls within their room; their number.
circles=$(awk '
	$2 == $4 { edge[$1, $3] = 1; file[$1] = file[$3] = $2 }
	END {
		for (a in file) for (e in edge) { split(e, p, SUBSEP); if (p[1] == a) reach[a, p[2]] = 1 }
		for (k in file) for (i in file) if ((i, k) in reach)
			for (j in file) if ((k, j) in reach) reach[i, j] = 1
		for (i in file) {
			n = 0; names = ""
			for (j in file) if (i == j || ((i, j) in reach && (j, i) in reach)) { n++; names = names " " j }
			print n, file[i], i ":" names
		}
	}' <<< "$calls" | sort -rn)
while read -r size room names; do
	[[ -z $size ]] || ((size <= circle_max)) ||
		complain "src/sock/$room: ${names%%:*} is in a circle of $size files:${names#*:}"
done <<< "$circles"

while read -r lines file; do
	((lines <= 40)) || complain "$file: $lines files"
done < <(sed 's,/[^/]*$,,' <<< "$all" | sort | uniq -c)

echo "$n calls between files of src/sock; largest circle: $(head -n 1 <<< "$circles")"
verdict
