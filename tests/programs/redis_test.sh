#!/bin/bash
# redis-server under redis-benchmark, while it forks to save its data; after a restart it has the
# saved data.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs redis-server redis-cli redis-benchmark

ask() {
	use ask redis-cli -h $netns_server "$@" && cat "$work/ask.log"
}

redis() {
	serve "$1" 6379 redis-server --bind $netns_server --protected-mode no --dir "$work" --save "" \
		--appendonly no --logfile ""
}

visit() {
	redis first || return
	check "$what: a value comes back" test "$(ask SET here there) $(ask GET here)" == "OK there"
	check "$what: a large value comes back" large
	use bench redis-benchmark -h $netns_server -q -n 20000 -c 20 -r 1000 -t set,get,lpush,hset,mset &
	check "$what: it saves under load" test "$(ask BGSAVE)" == "Background saving started"
	check "$what: redis-benchmark" wait $!
	check "$what: every kind of request was answered" test "$(grep -c 'requests per second' "$work/bench.log")" == 5
	check "$what: pipelines" use pipes redis-benchmark -h $netns_server -q -n 50000 -c 10 -P 16 -t ping,incr
	check "$what: it is logged" await 30 saved
	check "$what: a subscriber receives" hears
	ask SAVE > /dev/null
	keys=$(ask DBSIZE)
	unseen
	ask SHUTDOWN > /dev/null
	redis second || return
	check "$what: $keys keys are restored" test "$(ask DBSIZE) $(ask GET here)" == "$keys there"
}

# 4 MB in one request, and in one answer.
large() {
	head -c 4000000 /dev/zero | tr '\0' x > "$work/large"
	(netns_exec c "$lib_c" 0-1023 redis-cli -h $netns_server -x SET large < "$work/large" > "$work/put.log" 2>&1)
	ask GET large | cmp - <(cat "$work/large"; echo)
}

saved() {
	ask INFO persistence | tr -d '\r' > "$work/info"
	grep -q '^rdb_bgsave_in_progress:0' "$work/info" && grep -q '^rdb_last_bgsave_status:ok' "$work/info" &&
		! grep -q '^rdb_saves:0' "$work/info"
}

hears() {
	local pid heard=0

	use subscriber redis-cli -h $netns_server SUBSCRIBE news &
	pid=$!
	await 30 says subscriber subscribe > /dev/null && await 30 test "$(ask PUBLISH news today)" == 1 &&
		await 30 says subscriber today || heard=1
	kill $pid
	wait $pid
	return $heard
} 2> /dev/null
visits
