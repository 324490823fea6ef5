#!/bin/bash
# Sockets with one address and port in several threads and processes: each sender reaches one of
# them, and always the same; each gets its part; the parts of ended ones go to the others. All are
# accelerated, until one joins that is not.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	asks, by the kernel       processes that share
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

sharers=$(find_program "${SHARERS:-tests/scenario/processes/sharers}") || exit 1
netns_pair ""
senders=256

# serve N PROTO PORT OPTION SOCKETS THREADS [GROUP]: process N, accelerated; ${pids[N]}.
pids=()
serve_with() {
	netns_spawn "$netns_tmp/serve$2" s "$1" "$sharers" serve "$3" "${ip:-$netns_server}" "${@:4}" ||
		{ cat "$netns_tmp/serve$2"; return 1; }
	pids[$2]=$spawned
}

serve() {
	serve_with "$lib" "$@"
}

# ask PROTO PORT [SENDERS [SECONDS]]: on a busy machine an answer may be late, but none is missing.
ask() {
	netns_run c "" "$sharers" ask "$1" $netns_server "$2" ${3:-$senders} ${4:-30} > "$netns_tmp/asked"
}

# spread SOCKETS: all requests were answered, by this number of sockets, each of which had its part;
# a second time, too.
spread() {
	awk -v want="$1" -v senders=$senders -v few="${2:-0}" '
		$1 == "missing" || $1 == "other" { if ($2 > few) bad = bad " " $0; next }
		{ n++; if ($2 < senders / want / 3 || $2 > senders / want * 2.5) bad = bad " " $0 }
		END { if (n != want || bad) { print n " answered;" bad; exit 1 } }' "$netns_tmp/asked" ||
		{ cat "$netns_tmp/asked"; return 1; }
}

# answered_by LEAST: each request was answered, by at least this number of sockets.
answered_by() {
	grep -qx "missing 0" "$netns_tmp/asked" && test "$(grep -c '\.' "$netns_tmp/asked")" -ge "$1" ||
		{ cat "$netns_tmp/asked"; return 1; }
}

none_of() {
	! grep "^$1\." "$netns_tmp/asked"
}

only() {
	! grep -v "^$1\.\|^missing 0\|^other 0" "$netns_tmp/asked"
}

counters() {
	netns_counters s UdpInDatagrams TcpPassiveOpens
}

past_the_kernel() {
	[[ -z $lib ]] || test "$before" = "$(counters)"
}

end_all() {
	netns_kill "${pids[@]}"
	pids=()
}

share() {
	local proto=$1 port=$2 senders=512 # so that chance gives none of twelve less than a third

	before=$(counters)
	check "$proto: four processes of one socket" start_four "$proto" "$port" 1 1
	ask "$proto" "$port"
	check "$proto: ... each gets a part" spread 4
	check "$proto: and one of four threads" serve 4 "$proto" "$port" reuseport 1 4
	check "$proto: and one thread of four sockets" serve 5 "$proto" "$port" reuseport 4 1
	ask "$proto" "$port"
	check "$proto: ... each of twelve gets a part" spread 12
	check "$proto: ... bypasses the kernel" past_the_kernel
	victim=${pids[0]}
	netns_kill "$victim"
	unset "pids[0]"
	await 30 all_answered "$proto" "$port"
	await 30 all_ours "$proto" "$port"
	before=$(counters)
	ask "$proto" "$port"
	check "$proto: ended processes do not answer" none_of "$victim"
	check "$proto: ... the others notice" spread 11
	netns_kill "${pids[4]}"
	unset "pids[4]"
	await 30 all_answered "$proto" "$port"
	await 30 all_ours "$proto" "$port"
	before=$(counters)
	ask "$proto" "$port"
	check "$proto: four threads less" spread 7
	check "$proto: ... bypasses the kernel" past_the_kernel
	end_all
}

start_four() {
	for n in 0 1 2 3; do
		serve $n "$1" "$2" reuseport "$3" "$4" || return 1
	done
}

all_answered() {
	ask "$1" "$2" 64 1 && grep -qx "missing 0" "$netns_tmp/asked"
}

# Until the others have found an entry of a dead process, the kernel may get what came for that.
all_ours() {
	before=$(counters)
	ask "$1" "$2" $senders 1 && grep -qx "missing 0" "$netns_tmp/asked" && past_the_kernel
}

# Two requests of each sender, and all of them reached the kernel: no socket is accelerated any more.
kernel_answers_all() {
	local counter=UdpInDatagrams before

	[[ $1 == udp ]] || counter=TcpPassiveOpens
	before=$(netns_counters s $counter)
	ask "$1" "$2" 1024 1 && grep -qx "missing 0" "$netns_tmp/asked" &&
		(($(netns_counters s $counter) - before == 2048))
}

# All at the same time: the first one to bind is still opening the interface when the others bind.
start_at_once() {
	for n in 0 1 2 3; do
		netns_exec s "$lib" 0-1023 "$sharers" serve "$1" $netns_server "$2" reuseport 1 1 \
			> "$netns_tmp/serve$n" 2>&1 < /dev/null &
		pids[n]=$!
	done
	for n in 0 1 2 3; do
		await 30 is_ready "$netns_tmp/serve$n" "${pids[n]}" || return 1
	done
}

share udp 7000
share tcp 7001

for proto in udp tcp; do
	before=$(counters)
	check "$proto: four processes at once" start_at_once $proto 7002
	ask $proto 7002
	check "$proto: ... each gets a part" spread 4
	check "$proto: ... bypasses the kernel" past_the_kernel
	end_all
done

before=$(counters)
vma_env+=(VMA_RING_ALLOCATION_LOGIC_RX=0 VMA_RING_ALLOCATION_LOGIC_TX=0)
for proto in udp tcp; do
	check "$proto: threads and sockets on one ring" serve 0 $proto 7003 reuseport 3 2
	ask $proto 7003
	check "$proto: ... each gets a part" spread 6
	end_all
done
check "... bypasses the kernel" past_the_kernel
vma_env=(VMA_TRACELEVEL=warn)

# Without SO_REUSEPORT the latest socket gets everything, until it is closed.
before=$(counters)
check "reuseaddr: the first" serve 0 udp 7004 reuseaddr 1 1
check "reuseaddr: the second" serve 1 udp 7004 reuseaddr 1 1
ask udp 7004
check "reuseaddr: the latest gets everything" only "${pids[1]}"
netns_kill "${pids[1]}"
await 30 all_answered udp 7004
ask udp 7004
check "reuseaddr: then the one before" only "${pids[0]}"
# A socket bound to the address goes before one bound to any address.
ip=0.0.0.0 check "reuseaddr: a later one of any address" serve 1 udp 7004 reuseaddr 1 1
ask udp 7004
check "reuseaddr: is not asked" only "${pids[0]}"
netns_kill "${pids[0]}"
await 30 all_answered udp 7004
ask udp 7004
check "reuseaddr: unless it is alone" only "${pids[1]}"
[[ -z $lib ]] || check "reuseaddr: bypasses the kernel" past_the_kernel
end_all

# hears_all WHERE SOCKETS [SECONDS]
hears_all() {
	netns_run c "" "$sharers" hear "$1" 7005 20 "$2" "${3:-30}" > "$netns_tmp/heard"
	awk -v want="$2" '{ n++; if ($2 != 20) exit 1 } END { exit n != want }' "$netns_tmp/heard" ||
		{ cat "$netns_tmp/heard"; return 1; }
}

ip=0.0.0.0 check "groups: one process" serve 0 udp 7005 reuseport 2 2 $netns_group
check "groups: all sockets receive the group" hears_all $netns_group 4
check "groups: and a broadcast" hears_all 10.9.0.255 4
ip=0.0.0.0 check "groups: another process" serve 1 udp 7005 reuseport 1 1 $netns_group
# The first process notices it by itself, and tells nobody: some datagrams later all have it.
await 30 hears_all $netns_group 5 1
check "groups: all sockets receive the group" hears_all $netns_group 5
ask udp 7005
check "groups: unicast goes to one socket" spread 5
end_all

# A process that is not accelerated joins: nothing is lost, because the kernel serves all of them.
told() {
	grep -q "another socket shares its port" "$1"
}

vma_env=(VMA_TRACELEVEL=debug VMA_LOG_FILE=$netns_tmp/log)
for proto in udp tcp; do
	: > "$netns_tmp/log"
	check "$proto: an accelerated one" serve 0 $proto 7006 reuseport 1 1
	check "$proto: one that is not accelerated joins" serve_with "" 1 $proto 7006 reuseport 1 1
	[[ -z $lib ]] || check "$proto: ... the first process notices" await 30 told "$netns_tmp/log"
	ask $proto 7006
	check "$proto: ... each of both gets a part" spread 2
	check "$proto: a third, accelerated, too" serve 2 $proto 7006 reuseport 1 1
	ask $proto 7006
	check "$proto: ... each gets a part" spread 3
	end_all
done

# More sockets than may share a flow: the kernel serves all of them.
vma_env=(VMA_TRACELEVEL=warn)
for proto in udp tcp; do
	check "$proto: 70 sockets" serve 0 $proto 7007 reuseport 35 2
	# Packets in transit when the last of them falls back to the kernel may be lost.
	check "$proto: ... the kernel serves them" await 30 kernel_answers_all $proto 7007
	ask $proto 7007 1024
	check "$proto: ... all of them answer" answered_by 60
	end_all
done
verdict
