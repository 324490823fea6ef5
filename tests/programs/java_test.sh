#!/bin/bash
# java (NIO selectors, and plain sockets in threads): a server and a client of ours.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs java javac
javac -d $netns_tmp tests/programs/Echo.java || die "javac fails"
visit() {
	serve server 7000 java -Xshare:auto -cp $netns_tmp Echo serve $netns_server 7000 || return
	check "$what: everything is echoed" use client java -Xshare:auto -cp $netns_tmp Echo ask $netns_server 7000 &&
		check "$what: ... it says" says client 'all right'
	unseen
}
visits
