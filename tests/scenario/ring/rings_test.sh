#!/bin/bash
# Threads use sockets in turns, and the sockets migrate to their rings: nothing is lost, repeated or
# out of order, in each allocation logic and thread mode, and all traffic bypasses the kernel.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	stamped messages, kernel  threads that echo, with the library
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

relay=$(find_program "${RELAY:-tests/scenario/relay}") || exit 1
messages=${MESSAGES:-3000}
netns_pair "" numrxqueues 2 numtxqueues 2
port=7000

# moves LOG WHAT: the number of moves, from the end of the debug log.
moves() {
	sed -n "s/.*sockets that moved, $2: \([0-9]*\) started, \([0-9]*\) finished, \([0-9]*\) abandoned.*/\1 \2 \3/p" "$1"
}

# moved LOG WHAT MIN: all started moves ended, and at least MIN were finished.
moved() {
	local started finished abandoned

	read -r started finished abandoned < <(moves "$1" "$2")
	: "${started:=0}" "${finished:=0}" "${abandoned:=0}"
	echo "     $2: $started moves started, $finished finished, $abandoned abandoned"
	((started == finished + abandoned && finished >= $3))
}

# opened LOG MIN: at least this number of rings was opened.
opened() {
	local n

	n=$(grep -c 'ring [0-9]* on v0 opened' "$1")
	echo "     $n rings"
	((n >= $2))
}

# take_turns PROTO MODE RX TX SOCKETS THREADS RINGS
take_turns() {
	local log=$netns_tmp/log out=$netns_tmp/out before after n=$messages

	# Where no socket can move from thread to thread, or from processor to processor, fewer messages do.
	[[ $6 != 1 && " $3 $4 " == *" "[23]"0 "* ]] || n=$((messages / 3))
	rm -f $log
	((port += 16))
	vma_env=(VMA_TRACELEVEL=debug VMA_LOG_FILE=$log VMA_THREAD_MODE=$2
		VMA_RING_ALLOCATION_LOGIC_RX=$3 VMA_RING_ALLOCATION_LOGIC_TX=$4
		VMA_RING_MIGRATION_RATIO_RX=20 VMA_RING_MIGRATION_RATIO_TX=20)
	netns_spawn $out s "$lib" "$relay" serve "$1" $netns_server $port "$5" "$6" 200 || return 1
	before=$(netns_counters s UdpInDatagrams TcpInSegs)
	netns_run c "" "$relay" drive "$1" $netns_server $port "$5" $n || return 1
	await 30 is_gone $spawned || return 1
	wait $spawned || { cat $out; return 1; }
	[[ -n $lib ]] || return 0
	after=$(netns_counters s UdpInDatagrams TcpInSegs)
	[[ $before == "$after" ]] || { echo "the kernel received: $before, then $after"; return 1; }
	opened $log "$7" || return 1
	moved $log receiving $(($3 == 20 && $6 > 1)) || return 1
	# With equal logics, sending moves together with receiving.
	moved $log sending $(($4 == 20 && $3 != 20 && $6 > 1))
}

for proto in udp tcp; do
	for mode in 1 2 3; do
		check "$proto, mode $mode, a ring for each thread" take_turns $proto $mode 20 20 4 3 3
	done
	for logic in 0 1 10 20 30; do
		check "$proto, mode 0, one thread, logic $logic" \
			take_turns $proto 0 $logic $logic 4 1 $((logic == 10 ? 4 : 1))
	done
	# Each of these with one mode over UDP, and another over TCP.
	[[ $proto == udp ]] && modes=(1 2 3) || modes=(2 3 1)
	check "$proto, mode ${modes[0]}, one ring" take_turns $proto ${modes[0]} 0 0 4 3 1
	check "$proto, mode ${modes[1]}, a ring for each processor" take_turns $proto ${modes[1]} 30 30 4 4 1
	check "$proto, mode ${modes[2]}, threads bound to processors" \
		take_turns $proto ${modes[2]} 31 31 4 4 1
	check "$proto, mode ${modes[0]}, a ring for each socket" take_turns $proto ${modes[0]} 10 10 4 3 4
	check "$proto, mode ${modes[1]}, a ring for each address" take_turns $proto ${modes[1]} 1 1 4 3 1
	check "$proto, mode ${modes[2]}, received by thread, sent by interface" \
		take_turns $proto ${modes[2]} 20 0 4 3 4
	check "$proto, mode ${modes[0]}, received by interface, sent by thread" \
		take_turns $proto ${modes[0]} 0 20 4 3 4
	check "$proto, mode ${modes[1]}, 16 threads" take_turns $proto ${modes[1]} 20 20 16 16 4
	check "$proto, mode 3, more threads than processors" take_turns $proto 3 20 20 8 8 4
done
verdict
