#!/bin/bash
# Programs on one host talk through shared memory, if both have the library and are of one user.
#
#	s  lo 127.0.0.1           server and client; v0 10.9.0.2 ---- v0 10.9.0.1  c
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

needs /usr/bin/python3
[[ -n $lib ]] || die "it needs the library"
netns_pair ""
port=7000
export VMA_LOCAL=1
# Anybody can read them here.
mkdir $netns_tmp/all && cp "$lib" tests/scenario/local/{local,streams}.py $netns_tmp/all/ && chmod -R a+rX $netns_tmp
lib=$netns_tmp/all/libvma.so
ends() { echo /usr/bin/python3 $netns_tmp/all/local.py "$@"; }

. tests/scenario/local/ends.sh
segments() { in_ns s awk '/^Tcp: [0-9]/ { print $11 }' /proc/net/snmp; }

# ---- who talks through shared memory

starts "$lib"
before=$(segments)
says "$lib" echo
check "both have the library: right answers" said 101
check "... through shared memory" is_local
check "... and the kernel saw no segment" test "$(segments)" == "$before"
says "" echo
check "a plain client of the same listener" said 101
says "$lib" bulk 20000000
check "20 MB there and back at once" said "alike 0"
check "... through shared memory" is_local
stops
starts ""
says "$lib" echo
check "a plain server" said 101
check "... through the kernel" is_kernel
stops
starts "$lib" 0.0.0.0
says "$lib" echo
check "a listener without an address: right answers" said 101
check "... through shared memory" is_local
in_ns s test -d /dev/null # the server also has its shards by v0
VMA_LOCAL=0 says "$lib" echo
check "VMA_LOCAL=0" said 101
check "... through the kernel" is_kernel
VMA_LOCAL_MEM=1 says "$lib" bulk 5000000
check "VMA_LOCAL_MEM=1: small buffers" said "alike 0"
check "... through shared memory" is_local
stops

# ---- the end of a process

starts "$lib"
says "$lib" die kill
check "a server that is killed: its last words, then a reset" said "last words reset"
check "... through shared memory" is_local
starts "$lib"
says "$lib" echo
check "what it left does not disturb the next one" said 101
entries() { find /run/libvma/local*-* -type f | wc -l; }
check "... whose entry is the only one" test "$(entries)" == 1
says "$lib" die gone > /dev/null
check "a client that is killed: the server sees a reset" await 30 grep -q reset $netns_tmp/server.$port
stops
check "no entry stays after an orderly end" test "$(entries)" == 0

# ---- a queue without room

in_ns s sysctl -qw net.ipv4.tcp_syn_linear_timeouts=0 # not every kernel has it
for which in "" "$lib"; do
	port=$((port + 1))
	before=$(segments)
	says "$which" full
	check "a full accept queue: connect() gives up${which:+, through shared memory}" said "ETIMEDOUT ETIMEDOUT in time b'text'"
done
check "... and the kernel saw no segment" test "$(segments)" == "$before"

# ---- SO_LINGER

for which in "" "$lib"; do
	before=$(segments)
	says "$which" linger
	check "close() waits for a peer that reads, or some time${which:+, through shared memory}" said "in time True in time True in time True "
done
check "... and the kernel saw no segment" test "$(segments)" == "$before"

# ---- an idle pair

starts "$lib"
check "an idle connection takes no processor time" rests "$lib"
check "... through shared memory" is_local
stops

# ---- others

as=(setpriv --reuid 65534 --regid 65534 --clear-groups env LD_PRELOAD="${SAN_RUNTIME:+$SAN_RUNTIME:}$lib")
starts "$lib"
vma_env=()
netns_run s "" "${as[@]}" $(ends echo $port) > $netns_tmp/said
check "another user, through the kernel" grep -qx 101 $netns_tmp/said
says "$lib" echo
check "... and the user after that" is_local
stops
port=$((port + 1))
vma_env=()
netns_spawn $netns_tmp/server.$port s "" "${as[@]}" $(ends serve $port 0.0.0.0) || die "no server of another user: $(tail -5 $netns_tmp/server.$port)"
server=$spawned
netns_run s "" "${as[@]}" $(ends echo $port) > $netns_tmp/said
check "without privileges: one line, and no warning" test "$(grep -c 'only connections on this host are accelerated' $netns_tmp/server.$port):$(grep -c WARNING $netns_tmp/server.$port)" == 1:0
check "... and right answers" grep -qx 101 $netns_tmp/said

# low FROM OPTION...: a client of that user at that port, with these options of setpriv; $by_kernel: the
# segments that the kernel had meanwhile.
low() {
	by_kernel=$(segments)
	netns_run s "" setpriv "${@:2}" "${as[@]:1}" $(ends low $port $1) > $netns_tmp/said
	by_kernel=$(($(segments) - by_kernel))
}
needs_none() { in_ns s sysctl -qw net.ipv4.ip_unprivileged_port_start=$1; }
bind=(--inh-caps=+net_bind_service --ambient-caps=+net_bind_service)

low 900 "${bind[@]}"
check "a low port by a privilege: right answers" grep -qx 101 $netns_tmp/said
check "... through the kernel" test $by_kernel -ge 100
needs_none 800
low 900
check "a low port that needs none here: right answers" grep -qx 101 $netns_tmp/said
check "... through shared memory" test $by_kernel -lt 100
low 799 "${bind[@]}"
check "a lower one: right answers" grep -qx 101 $netns_tmp/said
check "... through the kernel" test $by_kernel -ge 100
needs_none 1024
stops
starts "$lib" 0.0.0.0
vma_env=(VMA_TRACELEVEL=debug VMA_LOG_FILE=$netns_tmp/log)
rm -f $netns_tmp/log
check "another network namespace does not see it" test "$(netns_run c "$lib" $(ends echo $port) | grep -c ConnectionRefused)" == 1
check "... nor tries" is_kernel
stops
verdict
