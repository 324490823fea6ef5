#!/bin/bash
# vma_stats --openmetrics obeys the standard; the exporter of docs/metrics serves it, and the
# dashboard there has metrics that vma_stats prints.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	talker.py, vma_stats, exporter.py	echo, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

probe=$(netns_find_probe) || exit 1
stats=$(find_program tools/vma/vma_stats) || exit 1
dir=$netns_tmp/pages
type='application/openmetrics-text; version=1.0.0; charset=utf-8'
mkdir $dir
netns_pair ""

ask() {
	timeout -s KILL 30 python3 tests/scenario/stats/metrics_check.py "$@"
}

# export_of COMMAND ARG...: an exporter that runs it; $url and $exporter.
export_of() {
	netns_spawn $netns_tmp/exporter c "" python3 docs/metrics/exporter.py --listen 127.0.0.1:0 --command "$@" ||
		{ cat $netns_tmp/exporter && die "no exporter"; }
	exporter=$spawned
	url=$(sed -n 's/^ready: //p' $netns_tmp/exporter)
}

# gets STATUS TYPE [PATH]: the body is in $netns_tmp/body.
gets() {
	in_ns c timeout -s KILL 30 python3 tests/scenario/stats/metrics_check.py get "${3:-$url}" "$1" "$2" > $netns_tmp/body
}

# stops SIGNAL: the exporter ends in order.
stops() {
	kill -"$1" $exporter
	await 30 is_gone $exporter || return 1
	wait $exporter
}

has() {
	grep -qEe "$1" "${2:-$netns_tmp/body}" && return
	cat "${2:-$netns_tmp/body}"
	return 1
}

# refuses WHY TEXT: the checker finds it.
refuses() {
	! printf "$2" | ask format 2> $netns_tmp/why && has "$1" $netns_tmp/why
}

# ---- the checker finds what is wrong ----
head='# TYPE a counter\n# HELP a b.\n'
check "good text" eval 'printf "${head}a_total{x=\"\\\\\\\\\"} 1\n# EOF\n" | ask format'
check "no end" refuses 'EOF' "${head}a_total 1\n"
check "no _total" refuses 'not a sample of a' "${head}a 1\n# EOF\n"
check "no TYPE" refuses 'before TYPE' "# HELP a b.\na_total 1\n# EOF\n"
check "HELP too late" refuses 'before TYPE' "# TYPE a counter\na_total 1\n# HELP a b.\n# EOF\n"
check "interleaved" refuses 'interleaved' "$head# TYPE b gauge\n# HELP b b.\nb 1\n# HELP a c.\n# EOF\n"
check "a label not escaped" refuses 'no sample' "${head}a_total{x=\"a\"b\"} 1\n# EOF\n"
check "twice" refuses 'twice' "${head}a_total 1\na_total 2\n# EOF\n"

# ---- the exporter, with a stand-in ----
printf '# TYPE a gauge\n# HELP a b.\na 1\n# EOF\n' > $netns_tmp/text
export_of "cat $netns_tmp/text"
check "stand-in" gets 200 "$type"
check "... the body" cmp $netns_tmp/text $netns_tmp/body
check "another path" gets 404 - "${url%metrics}other"
check "no such text" eval 'mv $netns_tmp/text $netns_tmp/gone && gets 503 -'
check "... it says why" has 'gone|No such file'
check "no end" eval 'echo a > $netns_tmp/text && gets 503 -'
check "... it says why" has 'not complete'
check "SIGTERM ends it" stops TERM
export_of $netns_tmp/none
check "no such command" gets 503 -
check "... it says why" has 'none: No such file'
check "SIGINT ends it" stops INT
export_of "sleep 1000" --timeout 0.1
check "a command that hangs" gets 503 -
check "... it says why" has 'no answer within 0.1 seconds'
check "... it is gone" eval '! pgrep -x sleep'
stops TERM
export_of "sleep 1000"
gets 200 - 2> /dev/null &
check "it runs a command" await 30 pgrep -x sleep
check "SIGTERM meanwhile" stops TERM
check "... ends the command" await 30 eval '! pgrep -x sleep'

# ---- with vma_stats ----
export_of "$stats -k $dir --openmetrics"
check "no process" gets 200 "$type"
check "... obeys the standard" ask format < $netns_tmp/body
# talk: a process with known counts.
talk() {
	netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"
	mkfifo $netns_tmp/fifo
	# A name that would end a label; vma_stats replaces such characters.
	printf '%s\n' 'open("/proc/self/comm", "w").write("a\"b\\c")' > $netns_tmp/named.py
	cat tests/scenario/stats/talker.py >> $netns_tmp/named.py
	vma_env=(VMA_TRACELEVEL=warn VMA_RX_POLL=-1 VMA_SELECT_POLL=-1 VMA_STATS_SHMEM_DIR=$dir VMA_STATS_LATENCY=1)
	netns_spawn $netns_tmp/one c "$lib" python3 $netns_tmp/named.py $netns_tmp/fifo 5000 ||
		{ cat $netns_tmp/one && die "no talker"; }
}
talk
check "a process" gets 200 "$type"
check "... obeys the standard" ask format < $netns_tmp/body
check "... ends" test "$(tail -n 1 $netns_tmp/body)" = "# EOF"
check "... counts" has '^vma_socket_tx_packets_total\{.*process="a.b.c",fd="4".*\} 10$'
check "an accelerated socket" has '^vma_socket_accelerated\{.*fd="3",.*,verdict="accelerated over v0 on ring 0"\} 1$'
check "... and the kernel's" has '^vma_socket_accelerated\{.*fd="8",.*,verdict="kernel: an option .*"\} 0$'
check "polls" has '^vma_iomux_hits_total\{.*,call="epoll",fd="[0-9]+"\} 6$'
check "... of select" has '^vma_iomux_hits_total\{.*,call="select"\} 1$'
check "the dashboard" ask dashboard docs/metrics/grafana.json < $netns_tmp/body
sed 's/vma_ring_drops_total/vma_ring_dropped_total/' docs/metrics/grafana.json > $netns_tmp/bad.json
check "... and one with a wrong name" eval '! ask dashboard $netns_tmp/bad.json < $netns_tmp/body 2> $netns_tmp/why'
check "... it says which" has 'vma_ring_dropped_total$' $netns_tmp/why
check "SIGTERM ends it" stops TERM
verdict
