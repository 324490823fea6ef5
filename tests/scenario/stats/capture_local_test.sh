#!/bin/bash
# vma capture of a process whose peers are on its host: frames are made of what goes through shared
# memory, and tcpdump and tshark read them.
#
#	s  lo 127.0.0.1, ::1           local_talker.py twice, vma capture
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib
needs tcpdump tshark

vma=$(find_program tools/vma/vma) || exit 1
dir=$netns_tmp/pages
file=$netns_tmp/one.pcapng
export VMA_STATS_SHMEM_DIR=$dir VMA_LOCAL=1
mkdir $dir
netns_pair ""
in_ns s sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.lo.disable_ipv6=0
vma_env=(VMA_TRACELEVEL=warn VMA_STATS_SHMEM_DIR=$dir)
netns_spawn $netns_tmp/server s "$lib" python3 tests/scenario/stats/local_talker.py serve 7000 ||
	{ cat $netns_tmp/server && die "no server"; }
server=$spawned
mkfifo $netns_tmp/fifo
netns_spawn $netns_tmp/log s "$lib" python3 tests/scenario/stats/local_talker.py $netns_tmp/fifo 7000 ||
	{ cat $netns_tmp/log && die "no talker"; }
client=$spawned
exec {fifo}> $netns_tmp/fifo

# tell COMMAND: returns when it is done.
tell() {
	local before

	before=$(grep -c "^done $*" $netns_tmp/log)
	echo "$*" >&$fifo
	await 30 eval "((\$(grep -c '^done $*' $netns_tmp/log) > before))"
}

captures() { ls -l /proc/$pid/fd 2> /dev/null | grep -q 'memfd:vmacapture'; }

# capture PID COMMAND...: what that process sees while the talker obeys, in $file.
capture() {
	local rc=0

	pid=$1
	rm -f $file
	"$vma" capture $pid -w $file 2> $netns_tmp/said &
	tool=$!
	await 30 eval 'test -s $file || is_gone $tool' && ! is_gone $tool || { cat $netns_tmp/said; return 1; }
	tell "${@:2}" || rc=1
	kill -INT $tool
	wait $tool || rc=1
	await 30 eval '! captures' || rc=1
	reads
	return $rc
}

is() {
	[[ $1 == "$2" ]] && return
	echo "     $1 instead of $2"
	return 1
}

# reads: what tshark finds in the file, once, since its start takes longer than the reading: a line of fields for each
# frame, and then its complaints.
columns=(udp.srcport udp.dstport udp.length ipv6.dst tcp.srcport tcp.dstport tcp.len frame.interface_name
	tcp.flags.str tcp.analysis.lost_segment tcp.analysis.retransmission tcp.analysis.out_of_order frame.comment)
reads() {
	tshark -r $file -T fields $(printf -- '-e %s ' "${columns[@]}") -z expert > $netns_tmp/fields 2> $netns_tmp/why ||
		cat $netns_tmp/why
}
# fields PROGRAM: awk's, of the frames; it has the name of each column with _ for each dot.
fields() {
	awk -F '\t' '
		NF < 13 { exit }
		{ '"$(for i in "${!columns[@]}"; do printf '%s = $%d; ' "${columns[i]//./_}" $((i + 1)); done)"' }
		'"$1" $netns_tmp/fields
}
# count CONDITION: the frames for which it holds.
count() { fields "$1 { print }" | wc -l; }
clean() {
	tcpdump -nvr $file > $netns_tmp/read 2>&1
	! grep -iE 'incorrect|bad (udp )?cksum|wrong' $netns_tmp/read && ! grep -iE 'malformed|checksum' $netns_tmp/fields
}

# ---- datagrams, of both processes
check "UDP: a capture of the client" capture $client udp 50
check "... sent" is "$(count 'udp_dstport == 7000 && udp_length == 58')" 50
check "... received" is "$(count 'udp_srcport == 7000 && udp_length == 58')" 50
check "... alternate" is "$(fields '{ print udp_dstport == 7000 }' | uniq | wc -l)" 100
check "... right checksums" clean
check "... the interface" is "$(fields '{ print frame_interface_name }' | sort -u)" local
check "... the comment" eval 'fields "{ print frame_comment }" | grep -xE "accelerated over local on ring [0-9]+; udp 127\.0\.0\.1:[0-9]+ to 127\.0\.0\.1:7000; fd 3"'
check "UDP: a capture of the server" capture $server udp 50
check "... received" is "$(count 'udp_dstport == 7000 && udp_length == 58')" 50
check "... sent" is "$(count 'udp_srcport == 7000 && udp_length == 58')" 50
check "... right checksums" clean
check "IPv6" capture $client udp6 50
check "... both directions" is "$(count 'ipv6_dst == "::1" && (udp_srcport == 7000 || udp_dstport == 7000) && udp_length == 58')" 100
check "... right checksums" clean

# ---- connections
check "TCP" capture $client tcp 30
check "... sent" is "$(count 'tcp_dstport == 7000 && tcp_len == 1000')" 30
check "... bytes received" is "$(fields 'tcp_srcport == 7000 { n += tcp_len } END { print n }')" 30000
check "... right checksums" clean
check "... with descriptor" is "$(fields '{ sub(".*; ", "", frame_comment); print frame_comment }' | sort -u)" "fd 5"
for of in client server; do
	check "a megabyte there and back: the $of" capture ${!of} bulk 1000000
	for which in dst src; do
		check "... $which" is "$(fields "tcp_${which}port == 7000 { n += tcp_len } END { print n }")" 1000000
	done
	check "... nothing is missing or twice" is "$(count 'tcp_analysis_lost_segment tcp_analysis_retransmission tcp_analysis_out_of_order != ""')" 0
	check "... right checksums" clean
	check "a whole connection: the $of" capture ${!of} connect
	check "... handshake, data, both ends" is "$(fields '{ print tcp_flags_str }' | tr -d '·' | LC_ALL=C sort | uniq -c | awk '{ print $2 $1 }' | xargs)" "A1 AF2 AP2 AS1 S1"
done
check "without a capture both go on" tell tcp 10
check "... and datagrams" tell udp 10
kill $client $server
verdict
