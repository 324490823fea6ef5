#!/bin/bash
# Programs of others, with both sides through libvma.so, compared with both sides through the
# kernel, in requests per second:
#
#	redis	redis-benchmark, GET, 50 connections
#	redis1	the same, one connection: one round trip each
#	nginx	wrk, 50 connections, a small file; nginx without further workers
#
#	bazel run //tools:bench_programs -- [--rounds N] [--only NAME]
#
#	--rounds N	measure everything N times, in turns (3)
#	--only NAME	one of the above
#
# state.sh tells which measurements are compared.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
self=$(realpath -s "$0")
[[ -e tools/lib/netns.sh ]] || cd "${self%/*}/../.." || exit 1
NETNS_LIMIT=1200
. tools/lib/netns.sh
. tools/bench/state.sh
. tools/bench/ask.sh

rounds=3
only=.
args=("$@")
while (($#)); do
	case $1 in
	--rounds) rounds=${2:-} && shift ;;
	--only) only=${2:-} && shift ;;
	*) rounds= ;;
	esac
	shift
done
[[ $rounds =~ ^[1-9][0-9]?$ ]] || die "usage: bench_programs [--rounds N] [--only NAME]"
needs redis-server redis-benchmark nginx wrk
netns_enter "$self" "${args[@]}"
deadline=$((SECONDS + 1150))
raw=$(find_program tools/bench/xdp_pingpong) || exit 1
[[ -n $lib ]] || die "no library to measure"
netns_pick_cpus
[[ $cpu_server != "$cpu_client" ]] || die "needs two processors"
netns_pair ""
samples=$netns_tmp/samples
log=$netns_tmp/log
: > $samples

measure_redis() {
	redis c "$1" $netns_server 50 100000
}

measure_redis1() {
	redis c "$1" $netns_server 1 20000
}

measure_nginx() {
	mkdir -p $netns_tmp/www
	echo "small" > $netns_tmp/www/small
	cat > $netns_tmp/nginx.conf << END_OF_CONF
user root;
daemon off;
master_process off;
pid $netns_tmp/nginx.pid;
events { worker_connections 256; }
http {
	access_log off;
	keepalive_requests 1000000;
	server { listen $netns_server:8080; root $netns_tmp/www; }
}
END_OF_CONF
	ask c "$1" 8080 wrk -t 1 -c 50 -d 2s http://$netns_server:8080/small -- \
		nginx -c $netns_tmp/nginx.conf -e stderr
	sed -nE 's/^Requests\/sec: +([0-9.]+)/\1/p' $log.client
}

measure() {
	local value side=$lib

	[[ $1 == *_kernel ]] && side=
	value=$(measure_${1%_*} "$side")
	if [[ -n $side ]] && grep -q 'VMA WARNING' $log.server $log.client; then
		tail -n 15 $log.server $log.client >&2
		return
	fi
	echo "$value"
}

names=()
for name in redis redis1 nginx; do
	[[ $name =~ $only ]] && names+=(${name}_libvma ${name}_kernel)
done
((${#names[@]})) || die "nothing is called $only"
for ((i = 0; i < rounds; i++)); do
	one_round measure "${names[@]}" || break
done
measured=0
for state in "${states[@]}"; do
	printf '\nrequests per second, both sides; processors %s\n' $state
	printf '%-9s %12s %12s %10s\n' "" libvma kernel ratio
	for name in redis redis1 nginx; do
		ours=$(median ${name}_libvma $state 0)
		theirs=$(median ${name}_kernel $state 0)
		[[ -n $ours && -n $theirs ]] || continue
		printf '%-9s %12s %12s %10s\n' $name "$ours" "$theirs" "$(ratio "$ours" "$theirs")"
		measured=$((measured + 1))
	done
done
((measured)) || die "nothing was measured"
