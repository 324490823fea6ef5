#!/bin/bash
# 100,000 idle TCP connections at the same time, three times: the memory of each in user space on
# both sides, whether all of them work, and whether closing them returns the memory.
#
#	c  v0 10.9.0.11, .12, ... ---------- v0 10.9.0.2  s
#	CLIENTS processes                    as many servers, a port each
#
# One process on each side where it may have so many descriptors; where the hard limit
# forbids that (raising it takes CAP_SYS_RESOURCE), as many as it takes.
#
# What is measured is anonymous memory: packet buffers are shared, and there before.  A
# socket object is used again and never given back (ARCHITECTURE.md, Memory), so another
# time has to do with what those before took, but for what lives longer: a TIME_WAIT of
# each.  How many there are at once is chance; two crowds that leak do not fit in there.
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
NETNS_LIMIT=280
netns_enter "$self" "$@"

connections=${1:-100000}
rounds=3
most_bytes=1024   # an idle connection with everything: object, flow, descriptor table
most_timewait=200 # one in TIME_WAIT
spare=3500	  # descriptors that a process needs in addition to its connections: ports, rings

crowd=$(find_program tests/scenario/cost/crowd) || exit 1
ulimit -Hn 1000000 2> /dev/null
files=$(ulimit -Hn)
ulimit -Sn "$files"
((files > spare + 1000)) || die "the hard limit of $files descriptors is too low for a crowd (ulimit -Hn)"
pairs=$(((connections + files - spare - 1) / (files - spare)))
each=$((connections / pairs))
echo "$pairs x $each connections, $files descriptors a process"

netns_pair ""
in_ns c sh -c 'echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range'
in_ns c sh -c 'echo 5000 > /proc/sys/net/ipv4/tcp_max_tw_buckets'
for ((i = 1; i <= pairs * (1 + each / 50000); i++)); do
	ip -n c addr add 10.9.0.$((10 + i))/24 dev v0
done

# crowd NAME LIB COUNT ROUNDS: the lines of every client, NAME/client.I.
run_crowd() {
	local dir=$netns_tmp/$1 preload=$2 count=$3 rounds=$4 i j pids=() servers=() bad=0 addresses

	mkdir -p "$dir"
	for ((i = 0; i < pairs; i++)); do
		netns_spawn "$dir/server.$i" s "$preload" "$crowd" serve $netns_server $((7000 + i)) \
			"$dir/ctl.$i" || die "no server: $(cat "$dir/server.$i")"
		servers+=("$spawned")
	done
	for ((i = 0; i < pairs; i++)); do
		addresses=()
		for ((j = 0; j <= each / 50000; j++)); do
			addresses+=(10.9.0.$((11 + i * (1 + each / 50000) + j)))
		done
		netns_exec c "$preload" 0-1023 "$crowd" open $netns_server $((7000 + i)) "$dir/ctl.$i" \
			"$count" "$rounds" "${addresses[@]}" > "$dir/client.$i" 2>&1 < /dev/null &
		pids+=($!)
	done
	for ((i = 0; i < pairs; i++)); do
		wait "${pids[i]}" || bad=1
	done
	if ((bad)); then
		tail -n 3 "$dir"/client.* "$dir"/server.*
		netns_kill "${servers[@]}"
	else
		wait "${servers[@]}" || bad=1
	fi
	return $bad
}

# sum NAME ROUND PHASE FIELD: over all processes.
sum() {
	awk -v round="$2" -v phase="$3" -v field="$4" '
		$1 == "round" && $2 == round && $3 == phase {
			for (i = 4; i < NF; i++)
				if ($i == field)
					n += $(i + 1)
		}
		END { print n + 0 }' "$netns_tmp/$1"/client.*
}

slowest() {
	awk -v round="$2" -v phase="$3" '
		$1 == "round" && $2 == round && $3 == phase && $6 > most { most = $6 }
		END { print most + 0 }' "$netns_tmp/$1"/client.*
}

at_most() {
	(($1 <= $2)) && return
	echo "     $1, at most $2"
	return 1
}

total=$((pairs * each))
# The memory of the same program without the library is subtracted.
saved=$pairs
pairs=1
check "plain: 1000 connections" run_crowd plain "" 1000 1
for side in client server; do
	plain[${#plain[@]}]=$((($(sum plain 1 open ${side}_kb) - $(sum plain 0 before ${side}_kb)) * 1024 / 1000))
done
pairs=$saved
check "$total connections, $rounds times" run_crowd crowd "$lib" "$each" $rounds || {
	verdict
	exit
}
for ((round = 1; round <= rounds; round++)); do
	echo "round $round: opened in $(slowest crowd $round opened) ms, closed in $(slowest crowd $round closed) ms"
done
n=0
for side in client server; do
	before=$(sum crowd 0 before ${side}_kb)
	open=$(sum crowd 1 open ${side}_kb)
	later=$open
	for ((round = 2; round <= rounds; round++)); do
		kb=$(sum crowd $round open ${side}_kb)
		((later >= kb)) || later=$kb
	done
	after=$(sum crowd $rounds after ${side}_kb)
	bytes=$(((open - before) * 1024 / total - plain[n]))
	echo "$side: $before kB before, $open kB with all open, $later kB at most the next times, $after kB after: $bytes bytes each"
	if [[ -n $lib ]]; then
		check "$side: an idle connection costs little" at_most $bytes $most_bytes
	fi
	most=$((open + open / 50 + pairs * 1024 + total * most_timewait / 1024))
	check "$side: more times take little more" at_most $later $most
	check "$side: nor after the end of it" at_most "$after" $most
	fds=$(($(sum crowd $rounds end ${side}_fds) - $(sum crowd 0 before ${side}_fds)))
	keepers=$((files / 8 < 4096 ? files / 8 : 4096))
	check "$side: no descriptor but for ports ($fds)" at_most $fds $((pairs * (keepers + each / 10)))
	n=$((n + 1))
done
if [[ -n $lib ]]; then
	check "the kernel saw none of them" at_most "$(netns_counters s TcpPassiveOpens)" 2000
fi
verdict
