#!/bin/bash
# The tests that every driver has to pass, with both sides accelerated, on one pair of NICs; run in
# the guest (tools/guest), or anywhere on a pair of veth.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	clients                   servers
#
#	tests/guest/row.sh NAME
#
# A server and a client run on each side all the time, so that the interface is attached
# once, and all other processes join.  The last line is the row of docs/drivers.md.
# In the environment: SHARES=0 if processes cannot share an interface (before Linux 6.4),
# ZERO_COPY=1 if zero-copy is required, MASKED: a regular expression for the names of
# the interrupts that busy polling masks (under 0.05 per received message), RATIO: the
# required messages, in per cent of the kernel's (120), RATE: seconds to count them (4),
# ROW_QUICK=1: only the most important tests, ROW_QUEUES: the number of queues in use.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
NETNS_LIMIT=${NETNS_LIMIT:-600}
netns_enter "$self" "$@"

name=${1:?}
quick=${ROW_QUICK:-}
relay=$(find_program "${RELAY:-tests/scenario/relay}") || exit 1
probe=$(netns_find_probe) || exit 1
find_python
echo=tests/guest/echo.py
[[ -n $lib ]] || die "no library to try"
vma_env=(VMA_TRACELEVEL=info VMA_LOG_FILE=$netns_tmp/vma.log $ROW_OPTIONS)
netns_pair ""
for side in ${ROW_QUEUES:+c s}; do
	in_ns $side ethtool -L v0 combined "$ROW_QUEUES" || die "no $ROW_QUEUES queues"
done
netns_pick_cpus

# ---- attaching -----------------------------------------------------------------

# mode_of NAMESPACE: native or generic, from the kernel.
mode_of() {
	local device=v0

	[[ ! ${NETNS_BOND:-} ]] || device=p0 # a slave
	case $(ip -n "$1" -o link show $device) in
	*xdpgeneric*) echo generic ;;
	*xdp*) echo native ;;
	*) echo none ;;
	esac
}

# attach NAMESPACE ADDRESS: starts a process that stays attached.
attach() {
	netns_spawn "$netns_tmp/stay.$1" "$1" "$lib" "$probe" serve udp:7999:recv
}

is_zero_copy() {
	(($(grep -c 'XDP, zero-copy' $netns_tmp/vma.log) >= 2))
}

# ---- messages -----------------------------------------------------------------

# interrupts [REGEX]: number of device interrupts, or of those whose names match.
interrupts() {
	awk -v which="${1:-.}" '/PCI-MSI|PCI-MSIX|xen|IO-APIC/ && $NF ~ which {
		for (i = 2; i <= NF && $i ~ /^[0-9]+$/; i++) n += $i } END { print n + 0 }' /proc/interrupts
}

# sockets PROTO: three sockets, as sockperf's -f expects them.
sockets() {
	local port kind=U

	[[ $1 == udp ]] || kind=T
	for port in 5001 5002 5003; do
		echo "$kind:$netns_server:$port"
	done
}

# ping LIB PROTO SECONDS IOMUX: $messages and $irqs of a ping-pong; false: an answer is missing.
ping() {
	local lib=$1 sent options=(-i $netns_server -p 5001) before

	[[ $2 == udp ]] || options+=(--tcp)
	if [[ $4 != recv ]]; then
		sockets "$2" > $netns_tmp/sockets
		options=(-f $netns_tmp/sockets -F "$4")
		# Over several connections sockperf waits forever in a blocking receive, on the
		# kernel, too.
		[[ $2 == udp ]] || options+=(--nonblocked)
	fi
	messages=0
	sockperf_serve $netns_tmp/server s "$lib" $cpu_server "${options[@]}" || return 1
	before=$(interrupts "${irq_names:-.}")
	sockperf_ask $netns_tmp/client c "$lib" $cpu_client ping-pong "${options[@]}" -t "$3"
	irqs=$(($(interrupts "${irq_names:-.}") - before))
	sent=$(sockperf_value $netns_tmp/client sent)
	messages=$(sockperf_value $netns_tmp/client received)
	sockperf_stop
	messages=${messages:-0}
	# The last message may be in transit when the time is over.
	((messages > 0 && ${sent:-0} - messages <= 1)) && return
	tail -n 3 $netns_tmp/client
	return 1
}

rate() {
	local proto=$1 kernel

	ping "" $proto ${RATE:-4} recv
	kernel=$messages
	check "$name: $proto, messages" ping "$lib" $proto ${RATE:-4} recv
	echo "     kernel $kernel, accelerated $messages, $irqs interrupts"
	rates+=("$kernel" "$messages" "$irqs")
}

# A thread that polls runs the driver: receiving needs no interrupt.
is_masked() {
	local irq_names=$MASKED vma_env=("${vma_env[@]}" VMA_XDP_BUSY_POLL=1)
	local rounds=0

	# While a thread is preempted, the driver's timer serves its queue, and the next frame interrupts:
	# where the guest's processors get no turn together, at each message. Without masking there is
	# at least one per message in every round.
	while ((rounds++ < 8)); do
		ping "$lib" "$1" 2 recv || return 1
		echo "     $irqs interrupts, $messages messages, each received twice"
		# A starved guest has few messages in two seconds.
		((messages < 50 || irqs > messages * 2 / 20 + 40)) || return 0
	done
	return 1
}

is_faster() {
	((rates[1] * 100 >= ${RATIO:-120} * rates[0] && rates[4] * 100 >= ${RATIO:-120} * rates[3]))
}

# ---- flows, connections, sizes ------------------------------------------------

# flows WHAT...: runs echo.py with both sides accelerated.
flows() {
	netns_spawn $netns_tmp/echo s "$lib" $python $echo serve $netns_server 5600 || return 1
	netns_run c "$lib" $python $echo "$1" $netns_server 5600 "${@:2}"
}

# passed: the datagrams and segments that passed the kernels of both sides.
passed() {
	local side

	for side in c s; do
		netns_counters $side UdpInDatagrams TcpInSegs
		in_ns $side awk '$1 == "Udp6InDatagrams" { print $2 }' /proc/net/snmp6
	done | tr ' ' '\n' | awk '{ n += $1 } END { print n }'
}

# dual ADDRESS: 32 flows and 32 connections from AF_INET6 sockets to one that has both families.
dual() {
	local before

	before=$(passed)
	netns_spawn $netns_tmp/echo s "$lib" $python $echo serve :: 5600 || return 1
	netns_run c "$lib" $python $echo many "$1" 5600 32 3 || return 1
	(($(passed) == before)) || ! echo "     $(($(passed) - before)) packets passed the kernel"
}

logic() {
	local port=$((6000 + $2 * 16)) out=$netns_tmp/relay vma_env=("${vma_env[@]}"
		VMA_RING_ALLOCATION_LOGIC_RX=$2 VMA_RING_ALLOCATION_LOGIC_TX=$2)

	[[ $1 == udp ]] || port=$((port + 8))
	netns_spawn $out s "$lib" "$relay" serve "$1" $netns_server $port 4 2 100 || return 1
	netns_run c "" "$relay" drive "$1" $netns_server $port 4 300 || return 1
	await 10 is_gone $spawned && wait $spawned
}

# ---- programs -----------------------------------------------------------------

redis() {
	netns_exec s "$lib" 0-1023 redis-server --bind $netns_server --port 6379 --protected-mode no \
		--save "" --dir $netns_tmp > $netns_tmp/redis 2>&1 < /dev/null &
	spawned=$!
	await 20 grep -q 'eady to accept' $netns_tmp/redis || return 1
	netns_run c "$lib" redis-benchmark -h $netns_server -q -n 1000 -c 8 -t set,get,mset > $netns_tmp/asks
	[[ $(grep -c 'requests per second' $netns_tmp/asks) == 3 ]]
}

nginx() {
	mkdir -p $netns_tmp/www
	head -c 20000 /dev/urandom > $netns_tmp/www/file
	cat > $netns_tmp/nginx.conf << END
daemon off; master_process off; pid $netns_tmp/nginx.pid; error_log stderr;
events { worker_connections 256; }
http { access_log off; client_body_temp_path $netns_tmp/b; proxy_temp_path $netns_tmp/p;
	fastcgi_temp_path $netns_tmp/f; uwsgi_temp_path $netns_tmp/u; scgi_temp_path $netns_tmp/c;
	server { listen $netns_server:8080; root $netns_tmp/www; } }
END
	netns_exec s "$lib" 0-1023 nginx -e stderr -c $netns_tmp/nginx.conf > $netns_tmp/nginx 2>&1 < /dev/null &
	spawned=$!
	await 20 test -s $netns_tmp/nginx.pid || return 1
	for _ in 1 2 3 4 5; do
		netns_run c "$lib" curl -s -m 20 -o $netns_tmp/got http://$netns_server:8080/file
		cmp $netns_tmp/www/file $netns_tmp/got || return 1
	done
}

stop() {
	kill -TERM $spawned 2> /dev/null
	await 10 is_gone $spawned || kill -KILL $spawned
	wait $spawned 2> /dev/null
}

# What the library said, and what each side's NIC and kernel have counted: a stall is rarely seen twice.
show_state() {
	local side

	echo "     the end of the log:"
	tail -n 20 $netns_tmp/vma.log
	for side in c s; do
		echo "     $side:"
		in_ns $side ip -s -s link show v0
		in_ns $side ethtool -S v0 | awk '$NF != 0' | head -n 60
		in_ns $side ip neigh show
	done
	grep -E 'virtio|v0|MSI' /proc/interrupts | head -n 40
}

# ---- the row --------------------------------------------------------------------

rates=()
if [[ ${SHARES:-1} == 1 ]]; then
	check "$name: the server's side is attached" attach s
	check "$name: the client's side is attached" attach c
	mode=$(mode_of s)
fi
rate udp
rate tcp
: "${mode:=$(grep -o 'native\|generic' $netns_tmp/vma.log | head -n 1)}"
case ${ZERO_COPY:-} in
1) check "$name: zero-copy" is_zero_copy ;;
0) check "$name: no zero-copy, and why" grep -q 'zero-copy needs all of its queues in use' $netns_tmp/vma.log ;;
esac
if [[ -n ${MASKED:-} ]]; then
	check "$name: udp, receiving without interrupts" is_masked udp
	check "$name: tcp, receiving without interrupts" is_masked tcp
fi
[[ -n $quick ]] || check "$name: at least ${RATIO:-120} % of the kernel's messages" is_faster
if [[ -z $quick ]]; then
	for kind in recv s p e; do
		check "$name: sockperf udp, $kind" ping "$lib" udp 1 $kind
		check "$name: sockperf tcp, $kind" ping "$lib" tcp 1 $kind
	done
	for which in 0 10 20 30; do
		check "$name: rings by logic $which, udp" logic udp $which
		check "$name: rings by logic $which, tcp" logic tcp $which
	done
fi
check "$name: 32 flows and 32 connections" flows many 32 3
stop
check "$name: every size from 1 to 60,000 bytes" flows sizes
stop
netns_pair_ip6 ""
check "$name: IPv6" dual fd00:9::2
stop
check "$name: IPv4-mapped addresses" dual ::ffff:$netns_server
stop
# The server on all addresses wants the interface beneath, too.
[[ -z ${NETNS_VLAN:-} ]] || check "$name: beneath it the kernel, and why" \
	grep -q 'Interface w0 is not accelerated: v0 on it has an XDP program' $netns_tmp/vma.log
if [[ -z $quick ]]; then
	check "$name: redis" redis
	stop
	check "$name: nginx" nginx
	stop
fi
grep -E 'VMA (WARN|ERR)' $netns_tmp/vma.log | head -n 3
((failures == 0)) || show_state
printf 'ROW %s | %s | %s | %s | %s | %s\n' "$name" "$mode" \
	"$(is_zero_copy && echo zero-copy || echo copies)" \
	"${rates[0]:-0} / ${rates[1]:-0}" "${rates[3]:-0} / ${rates[4]:-0}" \
	"$(awk -v i="${rates[2]:-0}" -v m="${rates[1]:-1}" 'BEGIN { printf "%.2f", m ? i / m : 0 }')" |
	tee ${GUEST_OUT:+-a "$GUEST_OUT/rows"}
verdict
