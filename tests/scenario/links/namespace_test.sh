#!/bin/bash
# A thread enters another network namespace, and a process takes over its sockets: each socket stays
# in the namespace where it was created, with the same addresses in both.
#
#	c   v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	c2  v0 10.9.0.1 ---------- v0 10.9.0.2  s2
#	each says where it is     one program, in both
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

netns_pair ""
netns_pair 2
for tag in "" 2; do
	check "c$tag answers" netns_spawn $netns_tmp/say$tag "c$tag" "" python3 tests/scenario/links/namespace.py say c$tag
done
before=$(netns_counters c2 UdpInDatagrams TcpInSegs)
netns_run s "$lib" python3 tests/scenario/links/namespace.py ask /run/netns/s2 > $netns_tmp/ask
cat $netns_tmp/ask
ended=$(tail -n 1 $netns_tmp/ask)
while read -r what where; do
	case $what in
	home-*) check "$what: in the first" test "$where" = c ;;
	away-*) check "$what: in the second" test "$where" = c2 ;;
	esac
done < <(grep -E '^(home|away)-' $netns_tmp/ask)
check "all asked" test "$ended" = "9 answers"
check "the second process was told" test "$before" != "$(netns_counters c2 UdpInDatagrams TcpInSegs)"
[[ -z $lib ]] || check "the first one bypassed the kernel" \
	test "$(netns_counters s UdpInDatagrams)" = 0
verdict
