#!/bin/bash
# A server that closes each connection right after its response: data and FIN leave in one segment, so
# the server's side closes first, and the client's ports do not stay in TIME_WAIT.  The response of a
# connection that stays is not kept back.
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s	the kernel ---- the library
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

count=200
# The kernel has none of them in one segment, the library has nearly all, and few when the processors are
# so busy that the FIN comes late: then the client goes on.
least=0
[[ -z $lib ]] || least=50

netns_pair ""
netns_exec s "$lib" 0-1023 python3 tests/scenario/tcp/brief.py serve 7000 > $netns_tmp/serve 2>&1 < /dev/null &
server=$!
await 30 is_ready $netns_tmp/serve $server || die "no server: $(cat $netns_tmp/serve)"

# asked NAME: of the last line of the client.
asked() {
	sed -nE "s/.*\<$1=([0-9]+).*/\1/p" $netns_tmp/ask
}

time_waits() {
	in_ns c awk '/^TCP:/ { for (i = 2; i < NF; i += 2) if ($i == "tw") print $(i + 1) }' /proc/net/sockstat
}

netns_run c "" python3 tests/scenario/tcp/brief.py ask $netns_server 7000 $count $least > $netns_tmp/ask 2>&1
cat $netns_tmp/ask
check "all are answered" test $(($(asked fin) + $(asked without))) = "$(asked asked)"
if [[ -n $lib ]]; then
	check "the response and the FIN are one segment" test "$(asked fin)" -ge $least
	check "the client does not close these first" test "$(time_waits)" -le "$(asked without)"
fi
check "a connection that stays is answered, too" test "$(asked stay_ms)" -lt 30000 # not never
verdict
