# Sourced by the sockperf tests: runs the rows of their tables.
#
#	c<lane>  v0 10.9.0.1/24 ------------ v0 10.9.0.2/24  s<lane>
#	sockperf pp, tp, ul                  sockperf server
#
# A table is a list of `row` calls.  Run part of one by hand, as root, with
#
#	[LIB=path/to/libvma.so] tests/scenario/sockperf/sockperf_udp_test.sh [REGEX]
#
# REGEX selects rows by their text; LIB= runs all of it through the kernel.  Rows run in $LANES
# lanes, each with its own pair of namespaces: a client sleeps for two of some three seconds.  The next
# one begins about when one has sent: see take_turn.

NETNS_LIMIT=${NETNS_LIMIT:-280}
. tools/lib/netns.sh
. tests/lib/rows.sh
netns_enter "$self" "$@"
chosen=${1:-.}
lanes=${LANES:-4}
turn=900 # milliseconds

# Messages per second, where sockperf would flood. All messages of a run, less than two seconds, fit
# into a receive buffer of the default size, where the kernel counts 768 bytes for each: a receiver
# without processor for a while loses none.
pace=130
# The largest datagram that fits one frame; the kernel handles fragments.
largest_offloaded=1472

# row() takes SIDES SOCKETS MODE [OPTION...]
#
#	SIDES	server, client, both: who has the library
#	SOCKETS	udp, tcp, mcast, or a list of them for a file: udp,udp,tcp
#	MODE	pp, tp, ul
#	OPTION	for both sockperfs; client:OPTION or server:OPTION for one;
#		NAME=VALUE for the environment of sides with the library

# The addresses of a row's sockets, as sockperf's -f expects them.
socket_lines() {
	local kind port=11111

	for kind in ${1//,/ }; do
		case $kind in
		udp) echo "U:$netns_server:$port" ;;
		tcp) echo "T:$netns_server:$port" ;;
		mcast) echo "U:$netns_group:$port" ;;
		esac
		port=$((port + 1))
	done
}

# parse_row TEXT: $sides $sockets $mode, and options in $client[], $server[].
parse_row() {
	local word address

	read -r sides sockets mode words <<< "$1"
	client=()
	server=()
	size=14
	case $sockets in
	*,*)
		socket_lines "$sockets" > "$log.sockets"
		client+=(-f "$log.sockets")
		server+=(-f "$log.sockets")
		;;
	*)
		address=$netns_server
		[[ $sockets != mcast ]] || address=$netns_group
		client+=(-i "$address")
		server+=(-i "$address")
		[[ $sockets != tcp ]] || client+=(--tcp) server+=(--tcp)
		# sockperf detects gaps only in a single sequence.
		[[ $sockets == tcp ]] || server+=(-g)
		;;
	esac
	if [[ $sockets == *mcast* ]]; then
		client+=(--mc-rx-if "$netns_client" --mc-tx-if "$netns_client")
		# Its warm-up would use datagrams of 65507 bytes, which the kernel handles.
		server+=(--mc-rx-if "$netns_server" --mc-tx-if "$netns_server" --dontwarmup)
	fi
	case $mode in
	# Its memory, which it clears first, is for all that it might send.
	pp) client+=(--mps=5000) ;;
	tp) client+=("--mps=$pace") ;;
	ul) client+=("--mps=$pace" --reply-every=1) ;;
	esac
	for word in $words; do
		case $word in
		client:*) client+=("${word#*:}") ;;
		server:*) server+=("${word#*:}") ;;
		[A-Z]*=*) vma_env+=("$word") ;;
		-m*)
			size=${word#-m}
			client+=("$word")
			[[ $sockets != tcp ]] || ((size <= 65507)) || server+=("$word")
			;;
		*) client+=("$word") server+=("$word") ;;
		esac
	done
}

# Its receiving thread continues while main() frees the buffers: an answer after the summary may
# crash it.
is_own_fault() {
	[[ $mode == ul && $client_rc == 139 ]] && grep -q 'Summary: Latency' "$log.client"
}

# unanswered LOG FAULTS: without answers that were only late. sockperf calls those dropped that it had not got at the
# end of its time, without its last 50 ms. It takes them into its valid duration only if they were sent after the last
# answer came; then no message of the last 50 ms has an answer either. A message lost before them is missing there.
unanswered() {
	local sent received all answered late dropped=${2#*= }

	read -r sent received <<< "$(sockperf_value "$1" valid)"
	all=$(sockperf_value "$1" sent)
	answered=$(sockperf_value "$1" received)
	late=$((all - answered))
	if [[ -n $received && ($sent == "$received" ||
		($late -le $((pace / 3)) && $((late - ${dropped%%;*})) -ge $((pace / 20)))) ]]; then
		echo "dropped messages = 0;${2#*;}"
	else
		echo "$2"
	fi
}

# by_kernel COUNTERS: number of packets that the kernel received. It answers packets for an ended
# process with a reset or an ICMP error: those came late.
by_kernel() {
	local in no_ports full out in_segs out_segs resets

	read -r in no_ports full out in_segs out_segs resets <<< "$1"
	echo $((in + full + out + in_segs - resets + out_segs - resets))
}

# The failures of the row that has just run, one per line.
judge() {
	local sent received handled faults gaps side log_of counters

	[[ $client_rc == 0 ]] || is_own_fault || echo "client's status $client_rc"
	[[ $server_rc == 0 ]] || echo "server's status $server_rc"
	sent=$(sockperf_value "$log.client" sent)
	handled=$(sockperf_value "$log.server" handled)
	# A few on a busy machine, where ping-pong waits for a processor at each message.
	((${sent:-0} >= 1)) || echo "client sent ${sent:-nothing}"
	# The timer may end a client between a message and its counter.
	((${handled:-0} >= ${sent:-0} - 1 && ${handled:-0} <= ${sent:-0} + 1)) ||
		echo "server handled ${handled:-nothing} of ${sent:-0}"
	if [[ $mode != tp ]]; then
		received=$(sockperf_value "$log.client" received)
		# Answers in transit when the timer ends the client are not lost: the client checks
		# its middle part itself, see faults.  It has none if it had the processor too seldom.
		((${received:-0} >= 1)) || echo "client received ${received:-nothing} of ${sent:-0}"
		faults=$(sockperf_value "$log.client" faults)
		[[ -z $faults || $mode != ul ]] || faults=$(unanswered "$log.client" "$faults")
		# One sequence over several sockets: only ping-pong keeps the order.
		[[ $sockets$mode != *,*ul ]] || faults=${faults% # out-of-order*}
		[[ $faults != *[1-9]* ]] || echo "client: $faults"
	fi
	! grep -q 'larger than expected' "$log.server" || echo "server got what is no message"
	if [[ " ${server[*]} " == *" -g "* ]]; then
		gaps=$(sockperf_value "$log.server" gaps)
		[[ ${gaps:-x} == 0 ]] || echo "server: gaps: ${gaps:-no statistics}"
	fi
	for side in server client; do
		log_of=$log.$side
		[[ $side == server ]] && counters=$server_moved || counters=$client_moved
		if [[ -z $lib || ($sides != both && $sides != "$side") ]]; then
			# Otherwise the counters prove nothing.
			[[ $counters =~ [1-9] || $mode$side == tpclient ]] || echo "$side: kernel counters stand still"
			continue
		fi
		! grep -q 'VMA \(WARNING\|ERROR\|PANIC\)' "$log_of" || echo "$side: warnings"
		[[ $sockets != tcp ]] && ((size > largest_offloaded)) && continue
		(($(by_kernel "$counters") == 0)) || echo "$side: the kernel saw traffic"
	done
}

counted=(UdpInDatagrams UdpNoPorts UdpRcvbufErrors UdpOutDatagrams TcpInSegs TcpOutSegs TcpOutRsts)

# moved BEFORE AFTER: the differences, number by number.
moved() {
	local before after i

	read -ra before <<< "$1"
	read -ra after <<< "$2"
	for i in "${!before[@]}"; do
		after[i]=$((after[i] - before[i]))
	done
	echo "${after[*]}"
}

# Starts at least one turn after the previous row of any lane.
take_turn() {
	local now next wait

	{
		flock 9
		now=${EPOCHREALTIME/[.,]/}
		next=$(< "$netns_tmp/turn")
		wait=$((${next:-0} - now))
		((wait > 0)) || wait=0
		echo $((now + wait + turn * 1000)) > "$netns_tmp/turn"
	} 9>> "$netns_tmp/turn.lock"
	sleep "$((wait / 1000000)).$(printf %06d $((wait % 1000000)))"
}

# Its output, without the lines that every run has.
quote() {
	sed -nE '/percentile|observation|^$|version #|Starting|Warmup|^\.+$/!p' "$1" | tail -n 12 | cut -c 1-160 | sed "s/^/     $2| /"
}

neighbours() {
	ip -n "$1" neigh | tr '\n' ';'
}

run_row() {
	local text=$1 number=$2 log=$netns_tmp/$lane sides sockets mode words client server size wrong
	local lib_s="" lib_c="" client_rc=0 server_rc=0 before_s before_c server_moved client_moved
	local vma_env=("${vma_env[@]}") run

	rm -f "$log".*
	parse_row "$text"
	[[ $sides == client ]] || lib_s=$lib
	[[ $sides == server ]] || lib_c=$lib
	case $mode in
	pp) run=(sockperf_answers 100) ;;
	ul) run=(sockperf_answers $((pace / 10))) ;;
	tp) run=(sockperf_ask) client+=(-t 1) ;;
	esac
	before_s=$(netns_counters "s$lane" "${counted[@]}")
	before_c=$(netns_counters "c$lane" "${counted[@]}")
	take_turn
	if sockperf_serve "$log.server" "s$lane" "$lib_s" "$cpus" "${server[@]}"; then
		"${run[@]}" "$log.client" "c$lane" "$lib_c" "$cpus" "$mode" "${client[@]}" || client_rc=$?
	else
		client_rc="none: the server did not get ready"
		: > "$log.client"
	fi
	sockperf_stop || server_rc=$?
	server_moved=$(moved "$before_s" "$(netns_counters "s$lane" "${counted[@]}")")
	client_moved=$(moved "$before_c" "$(netns_counters "c$lane" "${counted[@]}")")
	wrong=$(judge)
	if [[ -z $wrong ]]; then
		echo "ok   $text"
		return
	fi
	# A single write, so that the output of lanes does not mix.
	echo "FAIL $text
$(sed 's/^/     /' <<< "$wrong")
     kernel counters: ${counted[*]}
     at server: $server_moved; at client: $client_moved
     again: ${self#"$PWD"/} '^$text\$'
     server:${lib_s:+ LD_PRELOAD=libvma.so ${vma_env[*]}} sockperf server ${server[*]}
     client:${lib_c:+ LD_PRELOAD=libvma.so ${vma_env[*]}} sockperf $mode ${client[*]}
     neighbours: at server: $(neighbours "s$lane"); at client: $(neighbours "c$lane")
$(quote "$log.server" server)
$(quote "$log.client" client)"
	return 1
}

lane_begin() {
	netns_pair "$1"
}

run_rows() {
	local failed=0 cpus

	echo 0 > "$netns_tmp/turn"
	netns_pick_cpus
	cpus=$cpu_server,$cpu_client
	run_lanes || failed=$?
	echo "${#rows[@]} rows, $failed failed${lib:+, with the library}"
	((failed == 0))
}
