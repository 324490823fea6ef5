#!/bin/bash
# haproxy with two threads in front of two nginx with two workers each; wrk and curl send requests;
# one nginx ends.
#
#	c  wrk, curl, nginx, nginx ---------- haproxy  s
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs haproxy nginx wrk curl

stray=100 # wrk ends during its requests
url=http://$netns_server:8000

# behind NAME PORT: an nginx behind haproxy; $behind is its process.
behind() {
	mkdir -p "$work/$1"
	ln -sf "$work/www" "$work/$1/www"
	sed "/^#/d; s|\$WORK|$work/$1|; s|\$MARK|$1|; s|$netns_server:8080|$netns_client:$2|" tests/programs/nginx.conf \
		> "$work/$1.conf"
	netns_exec c "$lib_c" 0-1023 nginx -c "$work/$1.conf" -e stderr > "$work/$1.log" 2>&1 < /dev/null &
	behind=$!
	servers+=("$behind")
	check "$what: nginx $1 listens" await 30 listens c "$2"
}

visit() {
	local i one

	mkdir -p "$work/www"
	head -c 10000000 /dev/urandom > "$work/www/large"
	echo small > "$work/www/small"
	behind two 8082 || return
	behind one 8081 || return
	one=$behind
	serve haproxy 8000 haproxy -db -f tests/programs/haproxy.cfg || return
	check "$what: it is asked" asks load 40 -t 2 -c 20 $url/small && answered load
	check "$what: connections for one request" asks once 20 -t 2 -c 20 -H 'Connection: close' $url/small &&
		answered once
	check "$what: a large file" use large curl -sS -o "$work/large" $url/large &&
		check "$what: ... whole" cmp "$work/large" "$work/www/large"
	check "$what: a large file, as bytes" use raw curl -sS -o "$work/raw" http://$netns_server:8001/large &&
		check "$what: ... whole" cmp "$work/raw" "$work/www/large"
	for i in 1 2 3 4; do
		use mark.$i curl -sS $url/mark
	done
	check "$what: requests to both in turns" test "$(cat "$work"/mark.?.log | cut -d ' ' -f 1 | sort | uniq -c | xargs)" == "2 one 2 two"
	unseen
	stop $one
	check "$what: when one has ended, the other answers" await 60 only two
}

only() {
	for i in 1 2 3; do
		use mark curl -sS $url/mark && says mark "^$1" || return
	done
}

visits
