#!/bin/bash
# Where libvma.conf is looked for, which files are refused, and what the log and `vma check-conf`
# say about errors.
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

vma=$(find_program "${VMA:-tools/vma/vma}") || exit 1
use=tests/scenario/rules/use.py
conf=$netns_tmp/libvma.conf
log=$netns_tmp/log
probe=$(netns_find_probe) || exit 1
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv || die "no server"

# run [VARIABLE=VALUE...]: datagrams; $udp_in of them were received by the kernel.
run() {
	local before

	vma_env=(VMA_TRACELEVEL=warn "VMA_CONFIG_FILE=$conf" "$@")
	before=$(netns_counters c UdpInDatagrams)
	netns_run c "$lib" python3 $use udp > $log
	udp_in=$(($(netns_counters c UdpInDatagrams) - before))
	grep -q '^udp fine' $log || die "$(< $log)"
}
says() {
	grep -qE "$1" $log || { tail -30 $log && false; }
}
times() {
	[[ $(grep -cE "$2" $log) == "$1" ]] || { grep VMA $log && false; }
}
refused() {
	run
	check "$1: the program runs" test $udp_in == 0
	check "... and is warned" says "VMA WARNING: $conf is not used: $2"
	rm -rf $conf
}

rule='use os udp_receiver *:*'
refused "no file" 'No such file or directory'
mkdir $conf
refused "a directory" 'it is not a regular file'
mkfifo $conf
refused "a FIFO" 'it is not a regular file'
mknod $conf c 1 5
refused "a device" 'it is not a regular file'
ln -s $conf $conf
refused "a link to itself" 'Too many levels of symbolic links'
echo "$rule" > $conf
chmod 646 $conf
refused "a file of everybody" 'every user can write it'
echo "$rule" > $conf
chown nobody $conf
refused "a file of somebody" 'it belongs neither to root nor to the user of the process'
yes "# $rule" | head -c 1048577 > $conf
refused "a large file" 'it has more than 1 MiB'

echo "$rule" > $conf
run
check "a good file is used" test $udp_in == 20
check "... in silence" times 0 VMA
# The first %d is the process, whose number is that of the subshell that becomes it.
numbered() {
	(
		vma_env=(VMA_TRACELEVEL=warn "VMA_CONFIG_FILE=$netns_tmp/%d.conf")
		echo "$rule" > $netns_tmp/$BASHPID.conf
		netns_exec c "$lib" 0-1023 python3 $use udp > $log 2>&1
	)
}
before=$(netns_counters c UdpInDatagrams)
numbered
check "%d is the process id" test $(($(netns_counters c UdpInDatagrams) - before)) == 20

# The default; /etc is a copy, in this mount namespace only.
cp -a /etc $netns_tmp && mount --bind $netns_tmp/etc /etc || die "no /etc of our own"
rm -f /etc/libvma.conf
vma_env=(VMA_TRACELEVEL=warn)
netns_run c "$lib" python3 $use udp > $log
check "no /etc/libvma.conf: nothing is said" times 0 VMA
echo "$rule" > /etc/libvma.conf
before=$(netns_counters c UdpInDatagrams)
netns_run c "$lib" python3 $use udp > $log
check "/etc/libvma.conf is the default" test $(($(netns_counters c UdpInDatagrams) - before)) == 20

# Errors: in the log, and by the command.
printf '%s\n' '# comment' 'use os udp_sender 1.2.3.256:*' "$rule" '  foo' > $conf
run
check "errors: the other lines hold" test $udp_in == 20
check "... a warning names line and column" says \
	"VMA WARNING: $conf:2:25: expected a number from 0 to 255 .*, found \"256:\\*\"; the line is skipped"
check "... each" says "VMA WARNING: $conf:4:3: expected application-id, .*, found \"foo\""
for ((i = 0; i < 100; i++)); do echo "line $i"; done > $conf
run
check "not more than 20" times 21 VMA
check "... and how many are left" says "VMA WARNING: $conf: 80 more, see vma check-conf"

# checks STATUS ARG...: vma check-conf, whose words are in $log.
checks() {
	"$vma" check-conf "${@:2}" > $log 2>&1
	(($? == $1)) || { cat $log && false; }
}
check "check-conf: errors" checks 1 $conf
check "... all of them" times 100 "^$conf:[0-9]+:1: error: expected application-id"
check "check-conf: no file" checks 1 $conf.not
check "... said" says "^$conf.not: No such file"
for bad in '' "$conf tcp_server" "$conf python3 tcp_servers 1.2.3.4:5" "$conf tcp_server 1.2.3.4" "$conf tcp_server 1.2.3.4:1-2"; do
	# shellcheck disable=SC2086 # words
	check "check-conf $bad: usage" checks 3 $bad
	check "... said" says '^usage: vma check-conf FILE '
done
printf '%s\n' 'application-id nginx *' '  use os tcp_server *:80 # comment' 'application-id * B1' \
	'interface deny docker*' 'must tcp_client 10.0.0.0/8:*:192.168.0.0/16:*' > $conf
check "check-conf: a good file" checks 0 $conf
check "... in silence" times 0 .
check "check-conf: os" checks 2 $conf nginx tcp_server 1.2.3.4:80
check "... whose rules" says "^nginx: the rules of application-id nginx \\* \\($conf:1\\)$"
check "... which line" says "^tcp_server 1.2.3.4:80: os, by $conf:2: use os tcp_server \\*:80$"
check "check-conf: by default" checks 0 $conf nginx tcp_server 1.2.3.4:81
check "... said" says '^tcp_server 1.2.3.4:81: vma, by default: no rule matches$'
check "check-conf: no block" checks 0 $conf redis tcp_client 10.1.1.1:1
check "... said" says '^redis: no application-id matches, so everything is accelerated$'
VMA_APPLICATION_ID=B1 check "check-conf: an id, and interfaces" checks 2 $conf interface docker0 interface eth0 \
	tcp_client 10.1.1.1:1:192.168.1.1:2 tcp_client 10.1.1.1:1:172.16.1.1:2
check "... deny" says "^interface docker0: deny, by $conf:4: interface deny docker\\*$"
check "... allow" says '^interface eth0: allow, by default'
check "... must" says "^tcp_client 10.1.1.1:1:192.168.1.1:2: must, by $conf:5: must tcp_client"
check "... not from there" says '^tcp_client 10.1.1.1:1:172.16.1.1:2: vma, by default'

# The file that is shipped.
check "libvma.conf: name servers are asked by the kernel" checks 2 libvma.conf udp_connect 10.0.0.53:53
check "... and it is right" times 0 'error|warning'
for role in tcp_server tcp_client udp_sender udp_receiver udp_connect; do
	check "... everything else is accelerated: $role" checks 0 libvma.conf $role 10.0.0.53:54
done
verdict
