#!/bin/bash
# postgresql, which forks a process for each connection, under pgbench over TCP.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs psql pgbench setpriv
bin=$(echo /usr/lib/postgresql/*/bin)
data=$netns_tmp/data

# It refuses to run as root; with the library it needs the capabilities of root.
caps=+net_admin,+net_raw,+bpf,+ipc_lock
nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=$caps --ambient-caps=$caps)
install -d -o 65534 -g 65534 "$data"
(cd "$data" && "${nobody[@]}" "$bin/initdb" --no-sync -A trust -U postgres "$data" > $netns_tmp/initdb.log 2>&1) ||
	die "initdb: $(tail -n 3 $netns_tmp/initdb.log)"
echo "host all all $netns_client/24 trust" >> "$data/pg_hba.conf"
export PGHOST=$netns_server PGUSER=postgres PGDATABASE=postgres PGCONNECT_TIMEOUT=60

sql() {
	use sql psql -X -A -t -c "$1" && cat "$work/sql.log"
}

visit() {
	serve postgres 5432 "${nobody[@]}" "$bin/postgres" -D "$data" -c listen_addresses=$netns_server \
		-c unix_socket_directories= -c fsync=off || return
	check "$what: a query" await 30 answers
	check "$what: a large answer" test "$(sql "select sum(length(repeat(n::text, 1000))) from generate_series(1, 3000) n")" == 10893000
	check "$what: a large row" large
	check "$what: tables for pgbench" use init pgbench -i -q -s 1
	check "$what: pgbench" use bench pgbench -n -c 8 -j 2 -t 100 &&
		check "$what: ... every transaction is done" says bench 'actually processed: 800/800'
	check "$what: pgbench, a connection for each" use connects pgbench -n -C -S -c 4 -t 10 &&
		check "$what: ... every transaction is done" says connects 'actually processed: 40/40'
	check "$what: the sums agree" test "$(sql "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)")" == t
	unseen
	stop "$served" INT
}

answers() {
	[[ $(sql "select 6 * 7") == 42 ]]
}

large() {
	sql "select repeat('x', 5000000)" | cmp - <(head -c 5000000 /dev/zero | tr '\0' x; echo)
}
visits
