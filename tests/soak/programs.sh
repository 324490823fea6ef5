# Sourced by soak.sh: servers and clients of the chosen $pair, and their measurements.

# serve NAME PORT COMMAND...: a server in the pair's server namespace; its process is
# ${served[$pair.NAME]}, and $work/NAME.log gets its output.
serve() {
	local name=$1 port=$2

	netns_exec "s$pair" "$lib_s" 0-1023 "${@:3}" >> "$work/$name.log" 2>&1 < /dev/null &
	served[$pair.$name]=$!
	await 15 listens_or_gone "$port" "${served[$pair.$name]}" && ! is_gone "${served[$pair.$name]}"
}

listens_or_gone() {
	listens "s$pair" "$1" || is_gone "$2"
}

# hold NAME COMMAND...: a client that stays; it prints "ready" when it is connected.
hold() {
	: > "$work/$1.log"
	netns_exec "c$pair" "$lib_c" 0-1023 "${@:2}" > "$work/$1.log" 2>&1 < /dev/null &
	served[$pair.$1]=$!
	await 60 is_ready "$work/$1.log" "${served[$pair.$1]}" && ! is_gone "${served[$pair.$1]}"
}

# stop NAME [SIGNAL]: it has 10 seconds.
stop() {
	local pid=${served[$pair.$1]}

	kill -"${2:-TERM}" "$pid"
	await 10 is_gone "$pid" || kill -KILL "$pid"
	wait "$pid"
	unset "served[$pair.$1]"
} 2> /dev/null

stop_all() {
	local name

	for name in "${!served[@]}"; do
		[[ $name != $pair.* ]] || stop "${name#*.}"
	done
}

# drive NAME SECONDS COMMAND...: a client for this time, with a limit 20 seconds later. Its lines
# "result KEY=VALUE..." are results; its name is put in front of each kind of error, and its failure
# is an error, too.
drive() {
	local name=$1 limit=$2 rc=0

	(netns_exec "c$pair" "$lib_c" 0-1023 timeout -s KILL "$(awk -v s="$limit" 'BEGIN { print s + 20 }')" \
		"${@:3}" > "$work/$name.out" 2>> "$work/$name.log" < /dev/null) || rc=$?
	sed -n "s/errors_/errors_${name}_/g; s/^result //p" "$work/$name.out" >> "$work/results"
	((rc == 0)) || result errors_${name}_exit=1
}

# result KEY=VALUE...: requests, p99_us, max_us, errors_KIND.
result() {
	echo "$*" >> "$work/results"
}

# ---- nginx and wrk ------------------------------------------------------------------------

# nginx_serve USER PORT [DIRECTIVE...]: as Debian configures it, with other files to serve; its
# workers run as USER.
nginx_serve() {
	local user=$1 port=$2

	cat > "$work/nginx.conf" << END
user $user;
daemon off;
worker_processes 2;
pid $work/nginx.pid;
error_log stderr warn;
${*:3}
events { worker_connections 2048; }
http {
	access_log off;
	sendfile on;
	tcp_nopush on;
	keepalive_requests 1000000;
	client_body_temp_path $work/body;
	proxy_temp_path $work/proxy;
	fastcgi_temp_path $work/fastcgi;
	uwsgi_temp_path $work/uwsgi;
	scgi_temp_path $work/scgi;
	server {
		listen $netns_server:$port backlog=4096;
		location / { return 200 "small\n"; }
	}
}
END
	serve nginx "$port" nginx -c "$work/nginx.conf" -e stderr
}

# wrk_ask NAME SECONDS PORT CONNECTIONS [HEADER]
wrk_ask() {
	drive "$1" "$2" wrk -t 1 -c "$4" -d "$(whole "$2")s" --timeout 2s ${5:+-H "$5"} -s tests/soak/report.lua \
		"http://$netns_server:$3/"
}

# whole SECONDS: for programs that do not accept fractions; at least 1.
whole() {
	awk -v s="$1" 'BEGIN { n = int(s); print n < 1 ? 1 : n }'
}

# ---- redis --------------------------------------------------------------------------------

redis_serve() {
	serve redis 6379 redis-server --bind $netns_server --protected-mode no --dir "$work" --save "" \
		--appendonly no --maxclients 20000 --tcp-backlog 4096
}

# redis_ask NAME SECONDS CONNECTIONS: runs redis-benchmark for this time.
redis_ask() {
	local end

	end=$(($(uptime_ms) + $(awk -v s="$2" 'BEGIN { printf "%d", s * 1000 }')))
	while (($(uptime_ms) < end)); do
		(netns_exec "c$pair" "$lib_c" 0-1023 timeout -s KILL 30 redis-benchmark -h $netns_server -t get -c "$3" \
			-n 4000 --csv > "$work/$1.out" 2>> "$work/$1.log" < /dev/null) || result errors_$1_exit=1
		awk -F '","' '/^"GET"/ {
			sub(/"$/, "", $8)
			printf "requests=4000 p99_us=%d max_us=%d\n", $7 * 1000, $8 * 1000
		}' "$work/$1.out" >> "$work/results"
	done
}

# ---- postgresql ----------------------------------------------------------------------------

# It refuses to run as root; with the library it needs the capabilities of root.
postgres_user() {
	local caps=+net_admin,+net_raw,+bpf,+ipc_lock

	setpriv=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=$caps --ambient-caps=$caps)
}

postgres_serve() {
	local bin setpriv

	bin=$(echo /usr/lib/postgresql/*/bin)
	postgres_user
	install -d -o 65534 -g 65534 "$work/data"
	(cd "$work/data" && "${setpriv[@]}" "$bin/initdb" --no-sync -A trust -U postgres "$work/data" \
		> "$work/initdb.log" 2>&1) || return
	echo "host all all $netns_client/24 trust" >> "$work/data/pg_hba.conf"
	serve postgres 5432 "${setpriv[@]}" "$bin/postgres" -D "$work/data" -c listen_addresses=$netns_server \
		-c unix_socket_directories= -c fsync=off || return
	await 10 postgres_query "select 1" && postgres_query "create table ones as select 1 as one"
}

postgres_query() {
	(netns_exec "c$pair" "" 0-1023 timeout -s KILL 20 psql -h $netns_server -U postgres -c "$1" postgres \
		> /dev/null 2>> "$work/psql.log" < /dev/null)
}

# postgres_ask NAME SECONDS CLIENTS: a connection for each transaction.
postgres_ask() {
	mkdir -p "$work/$1.d"
	echo "select one from ones;" > "$work/select.sql"
	drive "$1" "$2" pgbench -h $netns_server -U postgres -n -C -c "$3" -T "$(whole "$2")" -f "$work/select.sql" \
		-l --log-prefix="$work/$1.d/log" postgres
	sort -n -k 3,3 "$work/$1.d"/log* | awk '
		{ us[NR] = $3 }
		END { printf "requests=%d p99_us=%d max_us=%d\n", NR, us[int(NR * 0.99)], us[NR] }' >> "$work/results"
	rm -r "$work/$1.d"
}

# ---- others ---------------------------------------------------------------------------------

echo_serve() {
	serve socat 7006 socat -b 4096 TCP-LISTEN:7006,fork,reuseaddr,backlog=128,bind=$netns_server EXEC:cat
}

dns_serve() {
	serve dnsmasq udp:53 dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --user=root \
		--listen-address=$netns_server --bind-interfaces --address=/test/10.1.1.1 --pid-file= --log-facility=-
}

mqtt_serve() {
	printf '%s\n' "listener 1883 $netns_server" "allow_anonymous true" "user root" "persistence false" \
		"max_queued_messages 0" > "$work/mosquitto.conf"
	serve mosquitto 1883 mosquitto -c "$work/mosquitto.conf"
}

# mqtt_ask NAME SECONDS RATE: RATE acknowledged messages per second, for one subscriber.
mqtt_ask() {
	local count subscriber

	count=$(awk -v s="$2" -v rate="$3" 'BEGIN { printf "%d", s * rate }')
	: > "$work/$1.heard"
	netns_exec "c$pair" "$lib_c" 0-1023 timeout -s KILL "$(awk -v s="$2" 'BEGIN { print s + 10 }')" \
		stdbuf -oL mosquitto_sub -d -h $netns_server -q 1 -t news -C "$count" -F '%U %p' > "$work/$1.heard" 2>&1 < /dev/null &
	subscriber=$!
	await 10 grep -q SUBACK "$work/$1.heard" || result errors_$1_connect=1
	python3 tests/soak/stamps.py write "$count" "$3" |
		(netns_exec "c$pair" "$lib_c" 0-1023 timeout -s KILL "$(awk -v s="$2" 'BEGIN { print s + 10 }')" \
			mosquitto_pub -h $netns_server -q 1 -t news -l >> "$work/$1.log" 2>&1) || result errors_$1_exit=1
	wait $subscriber
	grep -E '^[0-9.]+ [0-9.]+$' "$work/$1.heard" > "$work/$1.times"
	python3 tests/soak/stamps.py read "$work/$1.times" "$count" |
		sed -n "s/errors_/errors_$1_/; s/^result //p" >> "$work/results"
}
