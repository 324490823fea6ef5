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

# The shell itself reads what there is to know of a lane: for short rows starting programs takes longer than the
# transfer.
declare -A stayer # SIDE: a process of the lane, by which /proc shows its network

# seen TABLE SIDE: TABLE[SIDE] is the number of segments that the side's kernel has received.
seen() {
	local -n table=$1
	local names values

	while read -ra names && read -ra values && [[ ${names[0]} != Tcp: ]]; do :; done < "/proc/${stayer[$2]}/net/snmp"
	[[ ${names[10]} == InSegs ]] || die "no InSegs"
	table[$2]=${values[10]}
}

# tolerates SEGMENTS: may the kernel of an accelerated side see so many? Frames whose addresses or ports were
# corrupted.
tolerates() {
	local line damaged=0

	(($1)) || return 0
	while read -r line; do
		[[ ! $line =~ \ ([0-9]+)\ damaged ]] || damaged=$((damaged + BASH_REMATCH[1]))
	done < "$log.wire"
	(($1 * 3 <= damaged))
}

# The failures of the row that has just run, one per line.
judge() {
	local side to_kernel text

	[[ $go_rc == 0 ]] || echo "client: status $go_rc"
	[[ $serve_rc == 0 ]] || echo "server: status $serve_rc"
	file_has "$log.client" $'\n'"$connections streams, 0 bad" || echo "client: $(tail -n 1 "$log.client")"
	for side in server client; do
		[[ -n $lib && ($sides == both || $sides == "$side") ]] || continue
		IFS= read -rd '' text < "$log.$side"
		[[ ! $text =~ VMA\ (WARNING|ERROR|PANIC) ]] || echo "$side: warnings"
		to_kernel=$((after[$side] - before[$side]))
		tolerates $to_kernel || echo "$side: the kernel saw $to_kernel segments"
	done
}

# said_how LOG PID: the client's streams have ended, or the client has.
said_how() {
	file_has "$1" " streams, " || is_gone "$2"
}

# is_settled SIDE: its kernel has only connections in TIME-WAIT.
is_settled() {
	local lines

	mapfile -t lines < "/proc/${stayer[$1]}/net/tcp"
	# The state comes after the peer's port.
	[[ ${lines[*]} != *:[0-9A-F][0-9A-F][0-9A-F][0-9A-F]\ 0[1-589B]\ * ]]
}

# stop PID: returns its status.
stop() {
	kill -TERM "$1" 2> /dev/null
	await 30 is_gone "$1" || kill -KILL "$1"
	wait "$1"
}

run_row() {
	local text=$1 log=$netns_tmp/$lane sides direction bytes connections word lib_c="" lib_s="" said
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
		seen before $side
	done
	: > "$log.client"
	if netns_spawn "$log.server" "s$lane" "$lib_s" "$bulk" serve $netns_server 7000; then
		serve_pid=$spawned
		STAY=1 netns_exec "c$lane" "$lib_c" 0-1023 "$bulk" go $netns_server \
			7000 "$direction" "$bytes" "$connections" "${PATIENCE:-60}" > "$log.client" 2>&1 < /dev/null &
		go_pid=$!
		await "${ROW_LIMIT:-120}" said_how "$log.client" $go_pid || kill -KILL $go_pid
		# While the processes exist: the kernel gets later segments.
		seen after server
		stop "$serve_pid" || serve_rc=$?
		# Otherwise the next row sees retransmissions of the kernel.
		await 30 is_settled server || serve_rc+=", connections of the kernel wait for an answer"
		seen after client
		stop $go_pid || go_rc=$?
	else
		go_rc="none: the server did not get ready"
	fi
	kill -TERM $wire_pid
	wait $wire_pid
	judge > "$log.wrong"
	if [[ ! -s $log.wrong ]]; then
		mapfile -t said < "$log.client"
		echo "ok   $text: ${said[-1]}"
		return 0
	fi
	echo "FAIL $text
$(sed 's/^/     /' "$log.wrong")
$(tail -n 6 "$log.client" | sed 's/^/     client| /')
$(tail -n 6 "$log.server" | sed 's/^/     server| /')
$(sed 's/^/     wire| /' "$log.wire")
     again: ${self#"$PWD"/}$long '^$text\$'"
	return 1
}

lane_begin() {
	local side

	lane_up "$1"
	for side in client server; do
		netns_exec "${side:0:1}$1" "" 0-1023 sleep infinity &
		stayer[$side]=$!
		await 30 is_inside $! "${side:0:1}$1" || die "nobody is in ${side:0:1}$1"
	done
}

# is_inside PID NAMESPACE: until it is, it is where it was started.
is_inside() {
	[[ /proc/$1/ns/net -ef /run/netns/$2 ]]
}

run_rows() {
	local failed=0

	run_lanes || failed=$?
	echo "${#rows[@]} rows, $failed failed${lib:+, with the library}"
	((failed == 0))
}
