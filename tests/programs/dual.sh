#!/bin/bash
# Servers that listen on [::], as they do by default: clients of both families, which are accelerated.
#
#	dual.sh node|java|nginx|redis|iperf3 [REGEX]	(see programs.sh)
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
program=$1
chosen=${2:-.}
in_ns c sysctl -qw net.ipv6.conf.lo.disable_ipv6=0
in_ns s sysctl -qw net.ipv6.conf.lo.disable_ipv6=0
netns_pair_ip6 ""
server6=fd00:9::2

serve_node() {
	serve server 7000 node tests/programs/echo.js serve :: 7000
}

ask_node() {
	use "$1" node tests/programs/echo.js ask "$2" 7000 && says "$1" 'all right'
}

serve_java() {
	[[ -e $netns_tmp/Echo.class ]] || javac -d $netns_tmp tests/programs/Echo.java
	serve server 7000 java -Xshare:auto -cp $netns_tmp Echo serve :: 7000
}

ask_java() {
	use "$1" java -Xshare:auto -cp $netns_tmp Echo ask "$2" 7000 && says "$1" 'all right'
}

serve_nginx() {
	mkdir -p "$work/www"
	head -c 1000000 /dev/urandom > "$work/www/big"
	sed "s|\$WORK|$work|g; s|\$MARK|mark|; s|listen 10.9.0.2:8080|listen [::]:8080 ipv6only=off|" \
		tests/programs/nginx.conf > "$work/nginx.conf"
	serve server 8080 nginx -c "$work/nginx.conf"
}

ask_nginx() {
	local host=$2

	[[ $host != *:* ]] || host="[$host]"
	use "$1" curl -sSf -o "$work/got" "http://$host:8080/big" "http://$host:8080/mark" -o "$work/mark" &&
		cmp "$work/got" "$work/www/big" && grep -q '^mark' "$work/mark"
}

serve_redis() {
	serve server 6379 redis-server --protected-mode no --dir "$work" --save "" --appendonly no --logfile ""
}

ask_redis() {
	use "$1" redis-benchmark -h "$2" -q -n 10000 -c 20 -t set,get &&
		(($(grep -c 'requests per second' "$work/$1.log") == 2))
}

serve_iperf3() {
	tests_done=0
	stray=2000 # of more than 14,000: with -R it ends while the peer sends
	serve server 5201 iperf3 -s --forceflush
}

ask_iperf3() {
	local how

	for how in "-n 20M" "-n 20M -R" "-u -b 20M -n 1M -l 1400"; do
		# shellcheck disable=SC2086 # options
		awaits server $((++tests_done)) && use "$1" iperf3 -c "$2" $how || return
	done
}

visit() {
	serve_$program || return
	check "$what: a client by IPv4" ask_$program first $netns_server
	unseen
	saw_s=$(kernel_saw s)
	check "$what: a client by IPv6" ask_$program second $server6
	unseen
	check "$what: IPv4 again" ask_$program third $netns_server
	unseen
}
visits
