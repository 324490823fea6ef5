#!/bin/bash
# Direct rings on the emulated card: examples/direct.c posts its own work requests, which the card checks,
# and each of its datagrams arrives at the kernel's end of the cable.  Profiles, settings of rings and
# direct rings refuse what they cannot do, with a card and without.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
. tests/mlx5/card.sh

needs ethtool ping
example=$(find_program examples/direct) || exit 1
errors=$(find_program tests/mlx5/direct_errors) || exit 1
probe=$(netns_find_probe) || exit 1
card_start
with_card="$lib:$netns_tmp/shim.so"
log=$netns_tmp/log
count=5000 # far more than the queues have room for
netns_spawn $netns_tmp/serve c "" "$probe" serve udp:7000:recv || die "no server"

runs() {
	netns_run s "$with_card" env "${card_vars[@]}" "$@" > $log 2>&1 || { tail -30 $log && false; }
}

says() {
	grep -qE "$1" $log || { tail -30 $log && false; }
}

# Read, or no longer there because the server is slow; checksums are right then.
received() {
	netns_counters c UdpInDatagrams UdpRcvbufErrors | awk '{ for (i = 1; i <= NF; i++) n += $i } END { print n + 0 }'
}

all_received() {
	test "$(received)" = $((before + count + 1))
}

clean() {
	test "$(card_counter violations)" = 0 || { grep violation $card_log && false; }
}

before=$(received) sent=$(card_counter sent)
check "the example posts $count requests" runs timeout 100 "$example" $netns_client 7000 $count
check "... all of them complete" says "^sent $count\$"
check "... the card has sent them" test "$(card_counter sent)" -gt $((sent + count))
check "... and one of the socket; all have arrived, and their checksums are right" \
	await 30 all_received
check "... the card has nothing to complain of" clean
check "the events of a ring are moderated" runs timeout 60 "$errors" moderate $netns_client 7000
check "... as the card was told" test "$(card_counter frames) $(card_counter usec)" = "3 77"
check "what is refused, with a card" runs timeout 200 "$errors" card $netns_client 7000
check "... nothing is wrong" says '^bad 0'
check "... the kinds of rings that do not exist are logged once" \
	test "$(grep -c 'there are no rings of type' $log)" = 1
check "... so is a direct ring to receive by" test "$(grep -c 'nothing can be received by' $log)" = 1
check "... the card has nothing to complain of" clean
verdict
