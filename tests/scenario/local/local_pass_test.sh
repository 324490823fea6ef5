#!/bin/bash
# Connections on one host that are sent to processes without the library go on there.
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

needs /usr/bin/python3
[[ -n $lib ]] || die "it needs the library"
netns_new s
export VMA_LOCAL=1
port=7000
# Where any user can read it.
cp tests/scenario/local/{local_pass,streams}.py $netns_tmp && chmod 644 $netns_tmp/*.py || die "no copy"
ends() { echo /usr/bin/python3 -u $netns_tmp/local_pass.py "$@"; }
relays() { pgrep -x vma-relay; }

# asks LIB WORD COMMAND...: what the client of a new server says; both run by the command.
asks() {
	port=$((port + 1))
	netns_spawn $netns_tmp/server s "$1" "${@:3}" $(ends serve $port $2) || die "no server: $(< $netns_tmp/server)"
	server=$spawned
	netns_run s "$1" timeout 30 "${@:3}" $(ends client $port $2) > $netns_tmp/said
	{ kill -KILL $server; wait $server; } 2> /dev/null
}
said() {
	[[ $(tr '\n' ' ' < $netns_tmp/said) == "$1 " ]] && return
	echo "     it says: $(< $netns_tmp/said)"
	echo "     the server: $(< $netns_tmp/server)"
	return 1
}

# alike WORD WHAT TEXT: the kernel shows the text, and so do we, by a relay.
alike() {
	asks "" $1
	check "$2: the kernel" said "$3"
	asks "$lib" $1
	check "$2" said "$3"
	check "... and no relay is left" await 10 eval '! relays'
}

alike queued "bytes that are queued stay in order, both ways" "True b'1 1 1\\n' 100 (b'', 'end')"
alike names "names and options, and what had arrived" "ports ports b'1 0 arrived\\n'"
alike client "the side that connected" "True b'unread 10\\n' 10 (b'', 'end')"
alike half "halves that were shut down before" "(b'last\\n', 'end') (b\"text\\nbroken text\\n(b'rest', 'end')\\n\", 'end')"
alike sets "the sender's epoll sets, and a thread that blocks" \
	"b'sent\\n' b'got to the thread\\n' b'1 1 to the set\\n' 10"
alike child "a child of the sender goes on, and then the receiver" "10 b'sent\\n' 100 100"
alike quiet "five in one message; no child and no signal" "b'0 1 5\\n'"
alike ends "the receiver closes, resets, is killed" "[(b'', 'end'), (b'', 'reset'), (b'', 'end'), (b'', 'end')]"
alike peer "the peer resets, closes" "b'sent\\n' b'here\\n' b\"(b'', 'reset')\\n\" b'sent\\n' b'here\\n' b\"(b'', 'end')\\n\""
alike sender "the sender is killed" "b'alone\\n' 100"
alike ours "a receiver with the library has it first" "b'here\\n' b'has it\\n' b'twice\\n' 10"
alike off "a receiver with the library and VMA_LOCAL=0" 100
alike restarts "the server's port is free" "b'bound\\n'"
asks "$lib" relay
check "the relay is killed: both sides get a reset" said "b'has it\\n' b\"(b'', 'reset')\\n\" (b'', 'reset')"
as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
asks "$lib" names "${as_nobody[@]}"
check "without privileges the ports are others" said "addresses addresses b'1 0 arrived\\n'"
asks "$lib" queued "${as_nobody[@]}"
check "... and bytes stay in order" said "True b'1 1 1\\n' 100 (b'', 'end')"
verdict
