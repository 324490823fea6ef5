#!/bin/bash
# Rules of libvma.conf with addresses of IPv6, and what they are for a socket of both families.
#
#	c  v0 10.9.0.1, fd00:9::1, with the library ---- v0 10.9.0.2, fd00:9::2, without  s
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

use=tests/scenario/rules/use6.py
conf=$netns_tmp/libvma.conf
log=$netns_tmp/log
netns_pair ""
netns_pair_ip6 ""
netns_spawn $netns_tmp/serve s "" python3 $use serve || die "no server"
vma_env=(VMA_TRACELEVEL=debug "VMA_CONFIG_FILE=$conf")

# says_of RULE STEP ADDRESS: the step works; what the rule decided about it is in a file.
says_of() {
	printf '%s\n' "$1" > $conf
	netns_run c "$lib" python3 $use "$2" "$3" > $log
	grep -q "^$2 fine" $log || { tail -30 $log && return 1; }
	grep -o 'libvma.conf:1 says [a-z]* as [a-z_]*' $log | sort -u | sed 's/.*says //' > $netns_tmp/said
}

# row RULE STEP ADDRESS WANT: it works, and the rule decides this, or nothing.
row() {
	says_of "$1" "$2" "$3"
	check "$1: $2 $3 works" test $? == 0
	check "... ${4:-the rule is not for it}" test "$(< $netns_tmp/said)" == "$4"
}

row 'use os tcp_client [fd00:9::2]:7000' tcp fd00:9::2 'os as tcp_client'
row 'use os tcp_client [fd00:9::]/64:*' tcp fd00:9::2 'os as tcp_client'
row 'use os tcp_client [fd00:9::3]:7000' tcp fd00:9::2 ''
row 'use os tcp_client [::]/0:*' tcp fd00:9::2 'os as tcp_client'
row 'use os tcp_client [::]/0:*' tcp ::ffff:10.9.0.2 ''
row 'use os tcp_client 10.9.0.0/24:*' tcp ::ffff:10.9.0.2 'os as tcp_client'
row 'use os tcp_client 0.0.0.0/0:*' tcp fd00:9::2 ''
row 'use os udp_sender [fd00:9::2]:7000' udp fd00:9::2 'os as udp_sender'
row 'use os udp_sender 10.9.0.0/24:*' udp ::ffff:10.9.0.2 'os as udp_sender'
row 'use os udp_sender [fd00:9::]/16:*' udp ::ffff:10.9.0.2 ''
row 'use os udp_receiver [fd00:9::1]:6000' udp fd00:9::2 ''
row 'use os udp_receiver [::]:6000' udp fd00:9::2 'os as udp_receiver'
row 'use os tcp_client [fd00:9::2]:7000:[fd00:9::]/64:*' tcp_bound fd00:9::1 'os as tcp_client'
row 'use os tcp_client [fd00:9::2]:7000:[fd00:8::]/64:*' tcp_bound fd00:9::1 ''
row 'must tcp_server [::]:6001' listen :: 'must as tcp_server'
verdict
