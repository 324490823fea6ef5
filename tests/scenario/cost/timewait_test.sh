#!/bin/bash
# Thousands of connections, opened and closed by their client: what remains of each is small, there
# are no more of them than the kernel would keep, and their ports do not use up the descriptors of
# the process.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	10 times 300, and one that stays      accepts, closes second
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

each=300
rounds=10
most=1800   # net.ipv4.tcp_max_tw_buckets
bytes=512   # memory of a TIME_WAIT: 128 bytes, its part of the table, and a reserve, because they are few
files=16000 # and an eighth of them for ports: more than $most

crowd=$(find_program tests/scenario/cost/crowd) || exit 1
ulimit -Sn $files && ulimit -Hn $files || die "no limit of $files descriptors"
netns_pair ""
in_ns c sh -c 'echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range'
in_ns c sh -c "echo $most > /proc/sys/net/ipv4/tcp_max_tw_buckets"

netns_spawn $netns_tmp/server s "$lib" "$crowd" serve $netns_server 7000 $netns_tmp/ctl ||
	die "no server: $(cat $netns_tmp/server)"
netns_run c "$lib" "$crowd" churn $netns_server 7000 $netns_tmp/ctl $each $rounds $netns_client \
	> $netns_tmp/client
check "$rounds times $each connections" grep -q "^round $rounds end" $netns_tmp/client ||
	tail -n 3 $netns_tmp/client $netns_tmp/server

# value ROUND PHASE FIELD
value() {
	awk -v round="$1" -v phase="$2" -v field="$3" '
		$1 == "round" && $2 == round && $3 == phase {
			for (i = 4; i < NF; i++)
				if ($i == field)
					print $(i + 1)
		}' $netns_tmp/client
}

at_most() {
	(($1 <= $2)) && return
	echo "     $1, at most $2"
	return 1
}

full=$((most / each))
first=$(value 1 after client_kb)
filled=$(value $full after client_kb)
last=$(value $rounds after client_kb)
cost=$(((filled - first) * 1024 / (most - each)))
fds=$(($(value $rounds end client_fds) - $(value 0 before client_fds)))
echo "client: $first kB after $each, $filled kB after $most, $last kB after $((each * rounds)): $cost bytes each"
check "a TIME_WAIT is small" at_most $cost $bytes
check "there are no more than $most" at_most $last $((filled + 256))
check "ports cost no more than an eighth of the descriptors ($fds)" at_most $fds $((files / 8 + 100))
if [[ -n $lib ]]; then
	check "the kernel saw none of them" at_most "$(netns_counters c TcpActiveOpens)" 0
fi
verdict
