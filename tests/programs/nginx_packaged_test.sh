#!/bin/bash
# nginx with the configuration of Debian's package, untouched: the master is root, and its
# workers become www-data, who may not take the interface. They are asked by wrk and curl, and
# loaded again meanwhile.
#
#	c  wrk, curl ---------- nginx, master (root) and workers (www-data)  s
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs nginx wrk curl

url=http://$netns_server/

visit() {
	local dir

	# What the package's configuration names and this test writes to.
	for dir in /var/log/nginx /var/lib/nginx /var/www/html; do
		mount -t tmpfs none $dir || die "cannot mount $dir"
	done
	echo small > /var/www/html/index.html
	serve nginx 80 nginx -g 'daemon off;' || return
	check "$what: the workers are www-data" await 10 have_workers
	check "$what: somebody answers" await 10 use first curl -sS $url
	for i in 1 2 3 4 5 6 7 8; do
		check "$what: ... again" use one.$i curl -sS $url && says one.$i '^small$'
	done
	check "$what: it is asked" use load wrk -t 1 -c 16 -d 1s $url && answered load
	(for i in 1 2 3; do sleep 0.7 && kill -HUP "$served"; done) &
	check "$what: connections for one request" use once wrk -t 1 -c 8 -d 3s -H 'Connection: close' $url &&
		answered once
	check "$what: new workers answer" use new curl -sS $url && says new '^small$'
	check "$what: no worker died" eval "! grep -E 'alert|emerg|fatal' /var/log/nginx/error.log"
}

have_workers() {
	pgrep -u www-data -f 'nginx: worker'
}

# answered NAME: every request of that wrk was.
answered() {
	check "$what: ... and answers" says "$1" '^ +[1-9][0-9]+ requests in'
	check "$what: ... all of them" eval "! grep -E 'Socket errors|Non-2xx' $work/$1.log"
}
visits
