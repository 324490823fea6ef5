# Sourced by the interop tests: transfers over a bad link between the library and the kernel, in
# both roles, and between the library and itself.
#
#	c<lane> v0 10.9.0.1 --- w0 w<lane> w1 --- v0 10.9.0.2 s<lane>
#	bulk go                   wire                bulk serve
#
# A table is a list of `row` calls.  Run part of one by hand, as root, with
#
#	[LIB=path/to/libvma.so] tests/interop/interop_test.sh [-c] [REGEX]
#
# -c: each side has an emulated ConnectX card. REGEX chooses rows by their text; LIB= runs all of it through the kernel.
# $LANES rows at a time.

NETNS_LIMIT=${NETNS_LIMIT:-850}
. tools/lib/netns.sh
. tests/interop/lane.sh
. tests/lib/rows.sh
netns_enter "$self" "$@"
if [[ ${1:-} == -c ]]; then
	NETNS_CARD=1
	shift
fi
chosen=${1:-.}
long=$([[ $chosen != long ]] || echo " long")
lanes=${LANES:-4}

bulk=$(find_program tests/interop/bulk) || exit 1
wire=$(find_program tests/interop/wire) || exit 1

# row() takes SIDES DIRECTION BYTES CONNECTIONS [NAME=VALUE...] [WIRE-OPTION...]
#
#	SIDES		server, client, both: who has the library
#	DIRECTION	up: from the client; down; both
#	NAME=VALUE	in capitals: environment of sides with the library

# seen SIDE: number of segments that the side's kernel has received.
seen() {
	netns_counters "${1:0:1}$lane" TcpInSegs
}

# Segments that the kernel of an accelerated side may see: frames whose addresses or ports were
# corrupted.
tolerated() {
	awk '{ gsub(",", "") } $9 == "damaged" { n += $8 / 3 } END { print n + 0 }' "$log.wire"
}

# The failures of the row that has just run, one per line.
judge() {
	local side to_kernel

	[[ $go_rc == 0 ]] || echo "client: status $go_rc"
	[[ $serve_rc == 0 ]] || echo "server: status $serve_rc"
	grep -q "^$connections streams, 0 bad" "$log.client" || echo "client: $(tail -n 1 "$log.client")"
	for side in server client; do
		[[ -n $lib && ($sides == both || $sides == "$side") ]] || continue
		! grep -q 'VMA \(WARNING\|ERROR\|PANIC\)' "$log.$side" || echo "$side: warnings"
		to_kernel=$((after[$side] - before[$side]))
		awk -v n=$to_kernel -v most="$(tolerated)" 'BEGIN { exit n > most }' ||
			echo "$side: the kernel saw $to_kernel segments"
	done
}

# said_how LOG PID: the client's streams have ended, or the client has.
said_how() {
	[[ $(< "$1") == *" streams, "* ]] || is_gone "$2"
}

# is_settled NAMESPACE: its kernel has only connections in TIME-WAIT.
is_settled() {
	in_ns "$1" awk '$4 ~ /^0[1-589B]$/ { exit 1 }' /proc/net/tcp
}

# stop PID: returns its status.
stop() {
	kill -TERM "$1" 2> /dev/null
	await 30 is_gone "$1" || kill -KILL "$1"
	wait "$1"
}

run_row() {
	local text=$1 log=$netns_tmp/$lane sides direction bytes connections word lib_c="" lib_s="" wrong
	local wire_pid serve_pid go_pid go_rc=0 serve_rc=0 options=() rest side
	local vma_env=("${vma_env[@]}")
	local -A before after

	read -r sides direction bytes connections rest <<< "$text"
	for word in $rest; do
		case $word in
		[A-Z]*=*) vma_env+=("$word") ;;
		*) options+=("$word") ;;
		esac
	done
	[[ $sides == client ]] || lib_s=$lib
	[[ $sides == server ]] || lib_c=$lib
	netns_spawn "$log.wire" "w$lane" "" "$wire" w0 w1 "${options[@]}" || {
		echo "FAIL $text: $(< "$log.wire")"
		return 1
	}
	wire_pid=$spawned
	for side in server client; do
		before[$side]=$(seen $side)
	done
	: > "$log.client"
	if netns_spawn "$log.server" "s$lane" "$lib_s" "$bulk" serve $netns_server 7000; then
		serve_pid=$spawned
		STAY=1 netns_exec "c$lane" "$lib_c" 0-1023 "$bulk" go $netns_server \
			7000 "$direction" "$bytes" "$connections" "${PATIENCE:-60}" > "$log.client" 2>&1 < /dev/null &
		go_pid=$!
		await "${ROW_LIMIT:-120}" said_how "$log.client" $go_pid || kill -KILL $go_pid
		# While the processes exist: the kernel gets later segments.
		after[server]=$(seen server)
		stop "$serve_pid" || serve_rc=$?
		# Otherwise the next row sees retransmissions of the kernel.
		await 30 is_settled "s$lane" || serve_rc+=", connections of the kernel wait for an answer"
		after[client]=$(seen client)
		stop $go_pid || go_rc=$?
	else
		go_rc="none: the server did not get ready"
	fi
	kill -TERM $wire_pid
	wait $wire_pid
	wrong=$(judge)
	if [[ -z $wrong ]]; then
		echo "ok   $text: $(tail -n 1 "$log.client")"
		return 0
	fi
	echo "FAIL $text
$(sed 's/^/     /' <<< "$wrong")
$(tail -n 6 "$log.client" | sed 's/^/     client| /')
$(tail -n 6 "$log.server" | sed 's/^/     server| /')
$(sed 's/^/     wire| /' "$log.wire")
     again: ${self#"$PWD"/}$long '^$text\$'"
	return 1
}

lane_begin() {
	lane_up "$1"
}

run_rows() {
	local failed=0

	run_lanes || failed=$?
	echo "${#rows[@]} rows, $failed failed${lib:+, with the library}"
	((failed == 0))
}
