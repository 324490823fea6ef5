# Sourced by soak.sh: measures the chosen $pair, and what is left at the end.

# Kernel counters of a namespace, named as in nstat.
kernel_counters="TcpInSegs TcpOutRsts UdpInDatagrams UdpNoPorts TcpEstabResets TcpRetransSegs"

# processor_ms: of all processes here, including ended ones that were waited for.
processor_ms() {
	cat /proc/[0-9]*/stat 2> /dev/null | awk -v hz="$(getconf CLK_TCK)" '
		{ sub(/^.*\) /, ""); n += $12 + $13 + $14 + $15 }
		END { printf "%d", n * 1000 / hz }'
}

# uptime_ms: because the time of day may be set during the run.
uptime_ms() {
	local up

	read -r up _ < /proc/uptime
	echo "${up/./}0"
}

# counters: time, processor time, and the kernel's counters of both namespaces.
counters() {
	# shellcheck disable=SC2086 # names
	echo "$(uptime_ms) $(processor_ms) $(netns_counters "c$pair" $kernel_counters)" \
		"$(netns_counters "s$pair" $kernel_counters)"
}

# time_waits NAMESPACE: those of its kernel.
time_waits() {
	in_ns "$1" awk '/^TCP:/ { for (i = 2; i < NF; i += 2) if ($i == "tw") print $(i + 1) }' /proc/net/sockstat
}

# memory_kb and descriptors PID...: shared pages count once.
memory_kb() {
	local pid

	for pid; do
		cat "/proc/$pid/smaps_rollup"
	done 2> /dev/null | awk '/^Pss:/ { n += $2 } END { print n + 0 }'
}

descriptors() {
	local pid

	for pid; do
		ls "/proc/$pid/fd"
	done 2> /dev/null | wc -l
}

# sums: adds up the results of the slice; of times it takes the worst.
sums() {
	awk '
		{
			for (i = 1; i <= NF; i++) {
				split($i, kv, "=")
				if (kv[1] ~ /_us$/)
					value[kv[1]] = value[kv[1]] > kv[2] ? value[kv[1]] : kv[2]
				else
					value[kv[1]] += kv[2]
			}
		}
		END {
			printf "requests=%d p99_us=%d max_us=%d", value["requests"], value["p99_us"], value["max_us"]
			for (key in value)
				if (key ~ /^errors_/ && value[key])
					printf " %s=%d", key, value[key]
		}' "$work/results"
}

# settled: prints in_use when no more frames are in use than the minimum after any load, or after 2
# seconds: a load that ends returns its frames after some 300 ms.
settled() {
	local now frames fewest end=$(($(uptime_ms) + 2000))

	while :; do
		now=$(in_use)
		frames=${now##*frames=}
		frames=${frames%% *}
		fewest=$(cat "$work/fewest" 2> /dev/null || echo -1)
		((fewest < 0 || frames < fewest)) && echo "$frames" > "$work/fewest"
		((frames <= fewest || $(uptime_ms) > end)) && break
		sleep 0.1 # the interval of samples
	done
	echo "$now"
}

# in_use: of both interfaces of the pair; their identity is stored for the end.
in_use() {
	local ns

	for ns in "c$pair" "s$pair"; do
		in_ns "$ns" "$gauge" v0
	done | tee -a $ids | awk '
		{
			for (i = 1; i <= NF; i++) {
				split($i, kv, "=")
				value[kv[1]] += kv[2]
			}
			programs += !/program=0 /
		}
		END {
			printf "attached=%d entries=%d frames=%d rings=%d", programs,
				value["flows3"] + value["flows5"] + value["conns"],
				value["held"] + value["tx"] + value["unseen"], value["slots"]
		}'
}

# write_sample LINE BEFORE: the line of the record.
write_sample() {
	local now settled pids

	now=$(counters)
	settled=$(settled)
	pids=$(ip netns pids "c$pair"; ip netns pids "s$pair")
	echo "line=$1 pair=$pair $(differences "$2" "$now") $(sums) $settled tw_c=$(time_waits "c$pair")" \
		"tw_s=$(time_waits "s$pair") memory_kb=$(memory_kb $pids) fds=$(descriptors $pids)"
}

# differences BEFORE AFTER. by_kernel_*: packets that a kernel received, without those that it
# answered with a reset, because they came late for an ended connection.
differences() {
	echo "$1 $2" | awk -v side="$side" -v pair="$pair" '
		{
			n = NF / 2
			for (i = 1; i <= n; i++)
				d[i] = $(n + i) - $i
			printf "ms=%d cpu_ms=%d", d[1], d[2]
			client = d[3] - d[4] + d[5] + d[6]
			server = d[9] - d[10] + d[11] + d[12]
			if (pair == "kernel")
				ours = 0
			else
				ours = side == "client" ? client : side == "server" ? server : client > server ? client : server
			printf " by_kernel=%d resets=%d retransmitted=%d", ours, d[4] + d[7] + d[10] + d[13], d[8] + d[14]
		}'
}

# write_finish: results of clients that ran all the time.
write_finish() {
	echo "finish pair=$pair $(sums)"
}

# ---- the table ------------------------------------------------------------------------------

table='%4s %-7s %9s %9s %9s %7s %6s %6s %7s %6s %9s %6s %7s %7s %5s\n'

show_heading() {
	printf "$table" line pair per_s p99_us max_us errors tw_c tw_s resets rexmit memory_kb fds frames entries cpu%
}

# show_line LINE
show_line() {
	awk -v line="line=$1" -v table="${table}" '
		$1 == line {
			errors = 0
			for (i = 1; i <= NF; i++) {
				split($i, kv, "=")
				v[kv[1]] = kv[2]
				if (kv[1] ~ /^errors_/)
					errors += kv[2]
			}
			gsub(/\\n/, "\n", table)
			printf table, v["line"], v["pair"], sprintf("%.1f", v["requests"] * 1000 / v["ms"]), v["p99_us"],
				v["max_us"], errors, v["tw_c"], v["tw_s"], v["resets"], v["retransmitted"], v["memory_kb"],
				v["fds"], v["frames"], v["entries"], sprintf("%.0f", v["cpu_ms"] * 100 / v["ms"])
		}' $record
}

# show_errors: for the whole run, by kind.
show_errors() {
	awk '
		/ pair=/ {
			for (i = 1; i <= NF; i++) {
				split($i, kv, "=")
				if (kv[1] == "pair")
					pair = kv[2]
				else if (kv[1] ~ /^errors_/)
					n[substr(kv[1], 8)] += 0
			}
			for (i = 1; i <= NF; i++) {
				split($i, kv, "=")
				if (kv[1] ~ /^errors_/)
					count[pair, substr(kv[1], 8)] += kv[2]
			}
		}
		END {
			for (kind in n)
				printf "errors %-16s ours %d, kernel %d\n", kind, count["ours", kind], count["kernel", kind]
		}' $record | sort
}

# ---- what is left ---------------------------------------------------------------------------

# files: in the directories where programs leave files for others. The library keeps its own there
# (src/base/host_dir.h), a few for each user.
files() {
	local own='/(run/libvma|dev/shm/libvma-[0-9]+)'

	find /tmp /dev/shm /run -path /run/netns -prune -o -path $netns_tmp -prune -o -print |
		grep -vxE "$own(/(names|ports|state-1-[0-9a-f-]+|xdp-[0-9]+-[0-9]+-[0-9a-f]+|local3-[0-9]+))?"
	# At most as many names as interfaces, of two users.
	find /run/libvma /dev/shm/libvma-* -type s 2> /dev/null | tail -n +9
}

# left: a line for each object that remains after the programs.
left() {
	local ns pid

	for ns in cours sours ckernel skernel; do
		for pid in $(ip netns pids $ns); do
			echo "left process $ns $pid $(tr '\0' ' ' < "/proc/$pid/cmdline" 2> /dev/null)"
		done
		! netns_has_xdp $ns v0 || echo "left xdp $ns"
		in_ns $ns awk -v ns=$ns '$8 ~ /^@/ { print "left socket", ns, $8 }' /proc/net/unix
	done
	files | grep -vxFf $netns_tmp/files | sed 's/^/left file /'
	# shellcheck disable=SC2046 # numbers
	"$gauge" left program $(sed -nE 's/.*program=([1-9][0-9]*) .*/\1/p' $ids | sort -u) \
		maps $(sed -nE 's/.* maps=([0-9,]+) .*/\1/p' $ids | tr , '\n' | sort -u) | sed 's/^/left /'
}

nothing_left() {
	[[ -z $(left) ]]
}

# What killed programs have left for others on their host, the next one removes.
start_another() {
	(netns_exec sours "$lib" 0-1023 timeout 20 python3 -c \
		'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("127.0.0.1", 0))') \
		> $netns_tmp/another.log 2>&1 || echo "left a host on which no program starts"
}

# The kernel frees maps and closes queues a moment after the last process has ended.
write_left() {
	start_another
	await 5 nothing_left || left
}

write_warnings() {
	grep -hE 'VMA (WARNING|ERROR|PANIC)' "${works[ours]}"/*.log "${works[ours]}"/*.out 2> /dev/null |
		sort | uniq -c | sort -rn | head -n 8 | sed 's/^ */warned /'
}
