# Sourced by tests that run one program through the kernel and through the library, and expect the
# same transcript. $netns_tmp/peer.py is the program: "serve PORT" at the server, and "ADDRESS PORT"
# at the client.
#
# $netns_tmp/peer.py is the program: "serve PORT" at the server, and "ADDRESS PORT" at the
# client.

# peers SERVER-LIB CLIENT-LIB PORT: the output of both sides.
peers() {
	netns_spawn $netns_tmp/serve.$3 s "$1" python3 $netns_tmp/peer.py serve $3 || die "no server"
	netns_run c "$2" python3 $netns_tmp/peer.py $netns_server $3
	await 30 is_gone $spawned
	cat $netns_tmp/serve.$3
}

# compare SERVER-LIB CLIENT-LIB REGEX: the kernel's output matches REGEX, and the library's equals
# it.
compare() {
	peers "" "" 7001 > $netns_tmp/plain
	peers "$1" "$2" 7002 > $netns_tmp/with
	cat $netns_tmp/plain
	check "the kernel does what we think" grep -q "$3" $netns_tmp/plain
	check "the same with the library" diff $netns_tmp/plain $netns_tmp/with
	verdict
}
