#!/bin/bash
# apache as Debian's package configures it, with its threaded module and with its process module:
# the parent runs as root, and its children become www-data. wrk and curl send requests, and the
# configuration is reloaded meanwhile.
#
#	c  wrk, curl ---------- apache, parent (root) and children (www-data)  s
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs apache2 wrk curl

# As if each process of the server had run for a while: the parent's port is not open just because
# it was used some seconds ago.
vma_env+=(VMA_XDP_LINGER=0)

stray=100 # wrk ends during its requests
url=http://$netns_server/

# configure MODULE: the configuration of the package, with this module.
configure() {
	cp -r /etc/apache2 "$work/$1"
	rm -f "$work/$1"/mods-enabled/mpm_*
	ln -s ../mods-available/mpm_"$1".load ../mods-available/mpm_"$1".conf "$work/$1/mods-enabled/"
}

visit() {
	local dir

	for dir in /var/log/apache2 /var/www/html; do
		mount -t tmpfs none $dir || die "cannot mount $dir"
	done
	mkdir -p /run/apache2
	echo small > /var/www/html/index.html
	with event || return
	# The modules differ in the server's processes: its module is nothing to clients.
	[[ -z $lib_s ]] || with prefork
}

# with MODULE: at its end it kills its process group, which must not be ours.
with() {
	local i old loading progress

	configure "$1"
	serve "$1" 80 sh -c ". $work/$1/envvars; exec setsid apache2 -d $work/$1 -DFOREGROUND" || return
	check "$what, $1: the children are www-data" await 30 pgrep -u www-data -x apache2
	check "$what, $1: a worker answers" await 30 use "$1.first" curl -sS $url
	check "$what, $1: it is asked" asks "$1.load" 20 -t 1 -c 16 $url && answered "$1.load"
	unseen
	load "$1.once" -t 1 -c 8 -H 'Connection: close' $url
	for i in 1 2 3; do
		old=$(children)
		check "$what, $1: it is asked" goes_on
		kill -USR1 "$served"
		check "$what, $1: its children are replaced" await 60 are_new children
	done
	check "$what, $1: connections for one request" unload && answered "$1.once"
	check "$what, $1: new children answer" use "$1.new" curl -sS $url && says "$1.new" '^small$'
	unseen
	stop "$served"
}

children() {
	pgrep -u www-data -x apache2
}

visits
