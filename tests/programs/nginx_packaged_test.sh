#!/bin/bash
# nginx with the unchanged configuration of Debian's package: the master runs as root, and its
# workers become www-data. www-data may not open the interface, so the workers open it before. wrk
# and curl send requests, and the configuration is reloaded meanwhile; then the master is killed.
#
#	c  wrk, curl ---------- nginx, master (root) and workers (www-data)  s
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs nginx wrk curl

stray=100 # wrk ends during its requests
url=http://$netns_server/

visit() {
	local dir i loading progress

	# The directories that the package's configuration names, and that this test writes to.
	for dir in /var/log/nginx /var/lib/nginx /var/www/html; do
		mount -t tmpfs none $dir || die "cannot mount $dir"
	done
	echo small > /var/www/html/index.html
	serve nginx 80 nginx -g 'daemon off;' || return
	check "$what: the workers are www-data" await 30 have_workers
	check "$what: a worker answers" await 30 use first curl -sS $url
	for i in 1 2 3 4 5 6 7 8; do
		check "$what: ... again" use one.$i curl -sS $url && says one.$i '^small$'
	done
	check "$what: it is asked" asks load 40 -t 1 -c 16 $url && answered load
	unseen
	load once -t 1 -c 8 -H 'Connection: close' $url
	for i in 1 2 3; do
		check "$what: it is asked" goes_on
		reload
	done
	check "$what: connections for one request" unload && answered once
	check "$what: new workers answer" use new curl -sS $url && says new '^small$'
	# Workers have no privilege to make the kernel resolve it by netlink.
	reload # the new workers do not know the neighbour either
	# The client's kernel must not ask for the server's address: its question tells the client's.
	ip -n c neigh change $netns_server dev v0 nud permanent || die "no neighbour"
	ip -n s neigh flush dev v0
	check "$what: an unknown client is answered" use unknown curl -sS $url && says unknown '^small$'
	ip -n c neigh change $netns_server dev v0 nud reachable
	pkill -KILL -o -u www-data -f '^nginx: worker process *$'
	for i in 1 2 3; do
		check "$what: with a new worker instead of a killed one" use again curl -sS $url && says again '^small$'
	done
	unseen
	check "$what: no worker died" eval "! grep -E 'alert|emerg|fatal' /var/log/nginx/error.log | grep -v 'exited on signal 9'"
	without_master
}

# Its workers continue, and do not prevent the next nginx from starting.
without_master() {
	netns_kill "$served"
	for i in 1 2 3; do
		check "$what: without a master, too" use orphan curl -sS $url && says orphan '^small$'
	done
	unseen
	pkill -KILL -u www-data -f 'nginx: worker'
	check "$what: the workers have ended" await 30 eval '! listens s 80'
	serve nginx 80 nginx -g 'daemon off;' || return
	check "$what: the next one" asks next 40 -t 1 -c 16 $url && answered next
	unseen
}

# Those that serve: others are called "worker process is shutting down".
have_workers() {
	pgrep -u www-data -f '^nginx: worker process *$'
}

reload() {
	local old

	old=$(have_workers)
	kill -HUP "$served"
	check "$what: its workers are replaced" await 60 are_new have_workers
}

visits
