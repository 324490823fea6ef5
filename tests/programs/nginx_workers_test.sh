#!/bin/bash
# nginx with a master and two workers, which inherit the listener; wrk and curl send requests. The
# configuration is reloaded meanwhile: new workers start, the old ones end.
#
#	c  wrk, curl ---------- nginx, master and workers  s
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs nginx wrk curl

# wrk ends during its requests, and no process remembers the connections of an ended worker: these
# are some of 100,000 packets.
stray=5000
url=http://$netns_server:8080

visit() {
	local i loading progress

	mkdir -p "$work/www"
	echo small > "$work/www/small"
	configure_nginx 0
	serve nginx 8080 nginx -c "$work/nginx.conf" -e stderr || return
	for i in 1 2 3 4 5 6 7 8; do
		check "$what: a worker answers" use one.$i curl -sS $url/small && says one.$i '^small$'
	done
	load once -t 1 -c 8 -H 'Connection: close' $url/small
	for i in 1 2 3; do
		configure_nginx $i
		check "$what: it is asked" goes_on
		kill -HUP "$served"
		check "$what: ... and reloaded" await 30 is_new $i
	done
	check "$what: connections for one request" unload && answered once
	check "$what: new workers answer" use new curl -sS $url/small && says new '^small$'
	unseen
}

# is_new MARK: workers with this configuration answer.
is_new() {
	use mark curl -sS $url/mark && grep -q "^$1 " "$work/mark.log"
}

visits
