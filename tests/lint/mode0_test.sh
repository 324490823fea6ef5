#!/bin/bash
# VMA_THREAD_MODE=0 has no locked instruction: in the built library, the hot calls of that mode and
# the code that handles frames in any mode have none. What they call on cold paths (a wait, a post,
# a wake-up) may have some. The same calls of mode 1 do have some, otherwise this test detects
# nothing.
#
# The same calls of mode 1 do have some: else this test sees nothing.
. "$(dirname "$0")/lib.sh"

lib=${1:-$bin/libvma.so}
[[ $lib == /* ]] || lib=$TEST_SRCDIR/$TEST_WORKSPACE/$lib

calls='udp_send udp_recv tcp_send tcp_recv'
# Some of them are inlined, and then found in their callers.
passed='ring_poll frame_parse flow_find_slow flow_next udp_deliver udp_input tcp_deliver tcp_input
	tcp_recv tcp_send tcp_output tcp_flush frame_build_udp frame_build_tcp dst_send ring_tx_to
	xdp_rx_burst xdp_tx_get xdp_tx_put xdp_tx_flush mlx5_rx_burst mlx5_tx_get mlx5_tx_put
	mlx5_tx_flush mlx5_tx_reap mlx5_refill mlx5_arm clock_now'

# A line per function with its locked instructions: NAME COUNT FIRST... xchg with memory is locked
# without a prefix.
table=$(objdump -d --no-show-raw-insn "$lib" | awk '
	/^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name); count[name] += 0; next }
	{
		at = $1
		sub(/^[[:space:]]*[0-9a-f]+:[[:space:]]*/, "")
		if (/^(x(acquire|release) )?lock / || /^xchg[bwlq]?[[:space:]].*\(/) {
			if (!count[name]++)
				first[name] = at " " $0
		}
	}
	END { for (name in count) print name, count[name], first[name] }')

# in_table NAME: its number and the first instruction; empty if there is no such function.
in_table() {
	awk -v name="$1" '$1 == name { $1 = ""; print }' <<< "$table"
}

# Its source: file and line of the first one, with inlined callers.
origin() {
	addr2line -i -s -e "$lib" "0x${1%%:*}" 2> /dev/null | tr '\n' ' '
}

# clean NAME: complains about locked instructions in it.
clean() {
	local found
	found=$(in_table "$1")
	read -r count at text <<< "$found"
	[[ ${count:-0} == 0 ]] ||
		complain "$1 has $count locked instructions, the first at $at $text ($(origin "$at"))"
}

[[ -n $table ]] || complain "cannot disassemble $lib"
for call in $calls; do
	[[ -n $(in_table "${call}_single") ]] || complain "no function ${call}_single in $lib"
	clean "${call}_single"
	read -r count _ <<< "$(in_table "${call}_spin")"
	[[ ${count:-0} != 0 ]] || complain "no locked instruction seen in ${call}_spin"
done
seen=0
for name in $passed; do
	[[ -z $(in_table "$name") ]] || seen=$((seen + 1))
	clean "$name"
done
((seen >= 10)) || complain "only $seen of the functions on a frame's way found: were they renamed?"
echo "$(wc -l <<< "$table") functions, $seen on a frame's way"
verdict
