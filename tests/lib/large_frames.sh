# Sourced by tests of large segments after tools/lib/netns.sh: what the device of s gets.  tcpdump is needed.

dump=$netns_tmp/dump

# captured FILTER LAST COMMAND...: runs the command; what the device gets meanwhile is in $dump.  LAST: a
# regular expression of the line after which nothing comes.
captured() {
	local last=$2 rc pid

	netns_exec s "" 0-1023 tcpdump -nn -l -B 65536 -s 100 -i v0 $1 > $dump 2> $netns_tmp/dumped < /dev/null &
	pid=$!
	await 30 grep -q 'listening on' $netns_tmp/dumped || die "no tcpdump"
	shift 2
	"$@"
	rc=$?
	await 30 grep -Eq "$last" $dump
	kill $pid
	wait $pid
	return $rc
}

# large_frames COMPARISON: of those that the device got, and that were longer than any MTU here
large_frames() {
	local n

	n=$(awk '$NF > 4000 { n++ } END { print n + 0 }' $dump)
	(("$n $1")) && return
	echo "     $n large frames"
	return 1
}
