#!/bin/bash
# Large sends that the card cuts into segments: the kernel at the other end gets each byte once, and
# the card finds nothing wrong with the requests.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
. tests/mlx5/card.sh

needs ethtool ping python3
flows=$(find_program tests/mlx5/flows) || exit 1
card_start
with_card="$lib:$netns_tmp/shim.so"
log=$netns_tmp/log

patience=30 # seconds that the peer waits for the next bytes

# bulk [VARIABLE=VALUE...]: the peer reads a million bytes from a server on the card, twice.
bulk() {
	local ok

	netns_spawn $log s "$with_card" env "${card_vars[@]}" VMA_TRACELEVEL=debug "$@" "$flows" bulk $netns_server 7000 || {
		cat $log
		return 1
	}
	(netns_exec c "" 0-1023 timeout -s KILL 150 python3 - > $netns_tmp/peer 2>&1) << END
import os, socket, time
def pause():
    open('$netns_tmp/has_some', 'w')
    while os.path.exists('$netns_tmp/wait'):
        time.sleep(0.01)
for n in range(2):
    s = socket.create_connection(('$netns_server', 7000), timeout=$patience)
    data = bytearray()
    while True:
        part = s.recv(1 << 16)
        if not part:
            break
        data += part
        pause()
    want = (bytes(range(251)) * 4000)[:1000000]
    assert data == want, len(data)
END
	ok=$?
	netns_kill $spawned
	((ok == 0)) && return
	cat $netns_tmp/peer $log
	return 1
}

# cut: how many requests the card has cut.
cut() {
	card_counter segmented
}

check "a million bytes, twice" bulk
many=$(cut)
# The initial window of each connection is 10 segments.
check "the card cut large segments" test "$many" -ge 2
check "... into five frames each, and more" test "$(card_counter parts)" -ge $((5 * many))
check "the log tells of it" grep -q 'mlx0: mlx5 port: .* segmentation of 65535 bytes' $log
# Of a short queue, with a completion for each request, and where requests wrap around its end.
check "with VMA_TX_WRE=256" bulk VMA_TX_WRE=256
check "... the card cut some" test "$(cut)" -gt "$many"
check "with VMA_BF=0, each request completed" bulk VMA_BF=0 VMA_TX_WRE_BATCHING=1
check "with VMA_RX_WRE=256, few frames" bulk VMA_RX_WRE=256
check "with VMA_THREAD_MODE=0" bulk VMA_THREAD_MODE=0
# A card that is slow: what the peer makes room for waits in the queue.
large_waits() {
	(($(card_counter waiting) >= 2))
}
rm $netns_tmp/has_some
touch $netns_tmp/wait
bulk > $netns_tmp/slow 2>&1 &
slow=$!
check "a peer that does not read" await 30 test -e $netns_tmp/has_some
card_fault hold
rm $netns_tmp/wait
check "... and then does: a large segment waits" await 30 large_waits
card_fault go
check "after a card that waits" wait $slow || cat $netns_tmp/slow
# A server that ends while the card works on what it sends: its memory has gone.
killed() {
	rm -f $netns_tmp/has_some
	netns_spawn $log s "$with_card" env "${card_vars[@]}" "$flows" bulk $netns_server 7000 || return 1
	netns_exec c "" 0-1023 nc $netns_server 7000 < /dev/null > $netns_tmp/has_some 2> /dev/null &
	await 30 test -s $netns_tmp/has_some || return 1
	netns_kill $spawned $!
	return 0
}
check "servers that are killed while they send" killed && killed && killed && killed
# A path with a smaller MTU.
ip -n c link set v0 mtu 900
check "segments of a smaller MTU" bulk
ip -n c link set v0 mtu 1500
check "nothing was violated" test "$(card_counter violations)" = 0 || grep violation $card_log

# The port made wrong on purpose: mutants.txt.
lib_of_mutants=$(find_program tests/mlx5/libmutants.so) || exit 1
with_card="$lib_of_mutants:$netns_tmp/shim.so"
patience=5
is_found() {
	local before

	before=$(card_counter violations)
	bulk MLX5_MUTANT="$1" VMA_TX_WRE=256 > $netns_tmp/found 2>&1
	(($(card_counter violations) > before)) || return 1
	grep '^violation' $card_log | tail -n +$((before + 1)) | head -n 1 | sed 's/^/     /'
}
check "without a defect" bulk MLX5_MUTANT=none VMA_TX_WRE=256
while IFS=$'\t' read -r name what; do
	check "$name: $what" is_found "$name"
done < <(sed -n 's/^= \(large-[^\t]*\t[^(].*\)/\1/p' tests/mlx5/mutants.txt)
verdict
