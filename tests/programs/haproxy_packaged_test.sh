#!/bin/bash
# haproxy with the configuration of Debian's package, started as by its service: a master (root) and
# a worker, which becomes haproxy's user in an empty root directory. wrk and curl send requests, and
# the configuration is reloaded meanwhile. The kernel serves the connections that haproxy opens, and
# everything after a reload: workers send each other the listeners by SCM_RIGHTS.
#
#	c  wrk, curl, nginx ---------- haproxy, master (root) and worker (haproxy)  s
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs haproxy nginx wrk curl

stray=100 # wrk ends during its requests
url=http://$netns_server:8000

configure() {
	cat > "$work/haproxy.cfg" << END
frontend web
	bind $netns_server:8000
	http-request return status 200 content-type text/plain string "$1" if { path /mark }
	default_backend behind
backend behind
	server one $netns_client:8081
END
}

visit() {
	local program progress i loading

	mkdir -p "$work/www" /run/haproxy
	mount -t tmpfs none /var/lib/haproxy || die "cannot mount"
	echo small > "$work/www/small"
	sed "/^#/d; s|\$WORK|$work|; s|$netns_server:8080|$netns_client:8081|" tests/programs/nginx.conf > "$work/nginx.conf"
	netns_exec c "" 0-1023 nginx -c "$work/nginx.conf" -e stderr > "$work/nginx.log" 2>&1 < /dev/null &
	servers+=("$!")
	configure old
	serve haproxy 8000 haproxy -Ws -f /etc/haproxy/haproxy.cfg -f "$work/haproxy.cfg" -p "$work/pid" || return
	[[ -z $lib_s ]] || check "$what: the interface is opened" await 30 netns_has_xdp s v0
	program=$(xdp_program)
	check "$what: the worker is haproxy's" await 30 pgrep -u haproxy -x haproxy
	check "$what: a worker answers" await 30 use mark curl -sS $url/mark && says mark '^old'
	check "$what: through the server behind it" await 30 use behind curl -sS $url/small && says behind '^small$'
	check "$what: it is asked" asks load 40 -t 1 -c 16 $url/mark && answered load
	[[ -z $lib_s ]] || check "$what: the worker has what the master opened" [ "${program:-none}" = "$(xdp_program)" ]
	# The connections of curl, and those that haproxy opens.
	check "$what: what the server's kernel saw" saw s "$lib_s" "$saw_s" 200
	load once -t 1 -c 8 -H 'Connection: close' $url/mark
	for i in 1 2 3; do
		configure new$i
		check "$what: it is asked" goes_on
		check "$what: the master takes signals" await 30 takes_signals
		kill -USR2 "$served"
		check "$what: a new worker answers" await 30 is_new $i
	done
	check "$what: connections for one request" unload && answered once
}

# Of the server's interface. A worker that finds no process to share it with would attach another
# one.
xdp_program() {
	ip -n s link show v0 | grep -o 'prog/xdp id [0-9]*'
}

# A master that starts anew ignores them until it has handlers.
takes_signals() {
	local sigusr2=0x800

	((0x$(awk '$1 == "SigCgt:" { print $2 }' "/proc/$served/status") & sigusr2))
}

# is_new N: a worker of the N-th new configuration answers.
is_new() {
	use mark curl -sS $url/mark && says mark "^new$1"
}

visits
