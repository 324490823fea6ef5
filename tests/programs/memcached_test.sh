#!/bin/bash
# memcached with four threads: many connections, large values, pipelines, datagrams.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs memcached memcaslap memccapable python3

visit() {
	serve memcached 11211 memcached -u root -l $netns_server -p 11211 -U 11211 -t 4 -I 2m || return
	check "$what: every answer is right" use client python3 tests/programs/memcached.py $netns_server 11211 &&
		check "$what: it says so" says client 'all right'
	check "$what: memcaslap" use load memcaslap -s $netns_server:11211 -T 2 -c 16 -x 20000 -v 0.1 &&
		check "$what: it has lost and mixed up nothing" test "$(grep -cE '^(get_misses|verify_misses|verify_failed): 0$' "$work/load.log")" == 3
	check "$what: memccapable" use capable memccapable -h $netns_server -t 60 &&
		check "$what: every test of it" says capable 'All tests passed'
	unseen
}
visits
