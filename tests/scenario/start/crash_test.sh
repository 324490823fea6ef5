#!/bin/bash
# A program that crashes while it has a connection: VMA_HANDLE_SIGSEGV tells where, and changes
# nothing else; a handler of the program comes first; and a bad pointer in a call is EFAULT, not a
# crash, in all of this. A program that SIGINT ends, or interrupts while it polls.
#
#	c  v0 10.9.0.1, crash CASE ---------- v0 10.9.0.2  s
#	                                      crash peer, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

crash=$(find_program tests/scenario/start/crash) || exit 1
log=$netns_tmp/log
peer_log=$netns_tmp/peer
netns_pair ""
netns_spawn $peer_log s "" "$crash" peer $netns_server 7000 || die "no peer"

# run CASE STATUS [VARIABLE=VALUE...]: ends with this status; 139 is SIGSEGV.
run() {
	vma_env=(VMA_TRACELEVEL=warn "${@:3}")
	netns_run c "$lib" "$crash" "$1" $netns_server 7000 > $log
	(($? == $2)) || { cat $log && false; }
}
says() {
	grep -qE "$1" $log || { cat $log && false; }
}
silent() {
	! grep -q 'VMA' $log || { cat $log && false; }
}
# A backtrace, of the fault at the program's address 8 in crash_here().
traced() {
	[[ $(grep -c 'VMA PANIC: Segmentation fault at address 0x8$' $log) == 1 ]] &&
		says 'VMA PANIC: #[0-9]+ +0x[0-9a-f]+ crash_here\+0x[0-9a-f]+ \(.*/crash\)$'
}

check "a crash ends the program" run plain 139
check "... and nothing is said" silent
on=VMA_HANDLE_SIGSEGV=1
check "VMA_HANDLE_SIGSEGV: it ends as before" run plain 139 $on
check "... with a backtrace" traced
check "... and the last events of its connection" says 'VMA PANIC: trace: .* TCP SYN_SENT -> ESTABLISHED$'
check "in another thread" run thread 139 $on
check "... with its backtrace" eval 'traced && ! grep -q __libc_start_main $log'
check "with a handler of its own: that runs" run handler 7 $on
check "... with the address" says '^handler 11 0x8$'
check "... and nothing is said" silent
check "a handler that jumps away" run jumps 0 $on
check "... each time, and the connection works" eval '[[ $(grep -c "^handler 11 0x8$" $log) == 3 ]] && says "^alive"'
check "... and nothing is said" silent
check "a handler for one time: the second time is a crash" run once 139 $on
check "... after its handler" says '^handler 11 0x8$'
check "... with a backtrace" traced
check "a handler that was removed" run restored 139 $on
check "... has a backtrace" traced
check "SIGSEGV is ignored: the kernel ends it" run ignored 139 $on
check "... and nothing is said" silent
for with in "" $on; do
	# shellcheck disable=SC2086 # may be nothing
	check "${with:-without it}: a bad pointer, then a crash" run guarded 139 $with
	check "... the bad pointer is EFAULT" says '^send -1 EFAULT$'
	[[ -z $with ]] || check "... the crash alone has a backtrace" traced
	# shellcheck disable=SC2086 # likewise
	check "${with:-without it}: the same with a handler" run guarded_handler 7 $with
	check "... the bad pointer is EFAULT" says '^send -1 EFAULT$'
	check "... the handler sees the crash alone" test "$(grep -c '^handler' $log)" == 1
	check "... and nothing is said" silent
done
check "no stack is left: the kernel ends it" run overflow 139 $on
check "... with a stack for signals" run overflow_stack 139 $on
check "... it has a backtrace" says 'VMA PANIC: Segmentation fault at address 0x[0-9a-f]+$'
check "SIGSEGV of a process" run sent 139 $on
check "... is named" says 'VMA PANIC: Segmentation fault: SIGSEGV from process [0-9]+$'

# ---- SIGINT ------------------------------------------------------------------------

# start CASE VARIABLE=VALUE...: it waits in recv().
start() {
	vma_env=(VMA_TRACELEVEL=warn "${@:2}")
	: > $peer_log
	netns_spawn $log c "$lib" "$crash" "$1" $netns_server 7000 || { cat $log && die "it does not start"; }
}
status_is() {
	wait $spawned
	(($? == $1)) || { cat $log && false; }
}
# The signal may come before the call; it interrupts, or ends, the call all the same.
interrupt() {
	kill -INT $spawned 2> /dev/null
	grep -q '^recv' $log || is_gone $spawned
}

for poll in 0 -1; do
	start receive VMA_RX_POLL=$poll
	kill -INT $spawned
	check "VMA_RX_POLL=$poll: SIGINT ends a receive, and the program" status_is 130
	check "... the peer sees the end of the connection" await 30 grep -qx end $peer_log
	start interrupted VMA_RX_POLL=$poll
	check "... its handler is called" eval 'await 30 interrupt && says "^handler$"'
	check "... the receive is interrupted, and the connection works" status_is 0
	check "... EINTR" says '^recv -1 EINTR$'
done
start interrupted VMA_HANDLE_SIGINTR=0
check "VMA_HANDLE_SIGINTR=0: a warning" says 'VMA WARNING: VMA_HANDLE_SIGINTR.*the library always does so'
check "... the same" eval 'await 30 interrupt && status_is 0'
verdict
