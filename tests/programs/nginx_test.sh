#!/bin/bash
# nginx with two workers under wrk and curl, and reloaded meanwhile.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs nginx wrk curl

stray=100 # wrk ends during its requests
url=http://$netns_server:8080

visit() {
	local nginx

	mkdir -p "$work/www"
	head -c 20000000 /dev/urandom > "$work/www/large"
	echo small > "$work/www/small"
	configure_nginx old
	serve nginx 8080 nginx -c "$work/nginx.conf" -e stderr || return
	nginx=$served
	check "$what: a large file" use large curl -sS -o "$work/large" $url/large &&
		check "$what: ... whole" cmp "$work/large" "$work/www/large"
	check "$what: it is asked" asks load 100 -t 2 -c 40 $url/small && answered load
	check "$what: connections for one request" asks once 40 -t 2 -c 40 -H 'Connection: close' $url/small &&
		answered once
	check "$what: it is the old one" use mark curl -sS $url/mark && check "$what: ... it says" says mark '^old'
	unseen
	reload $nginx
}

# reload PID
reload() {
	local loading progress

	configure_nginx new
	load reload -t 2 -c 40 -H 'Connection: close' $url/small
	check "$what: it gets requests again" goes_on
	kill -HUP "$1"
	check "$what: it is reloaded" await 30 is_new
	check "$what: ... under load" goes_on
	check "$what: ... which ends" unload && answered reload
}

is_new() {
	use mark curl -sS $url/mark && grep -q '^new' "$work/mark.log"
}

visits
