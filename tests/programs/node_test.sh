#!/bin/bash
# nodejs: a server and a client of ours, over TCP, UDP and HTTP.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs node

visit() {
	serve server 7000 node tests/programs/echo.js serve $netns_server 7000 || return
	check "$what: everything is echoed" use client node tests/programs/echo.js ask $netns_server 7000 &&
		check "$what: ... it says" says client 'all right'
	unseen
}
visits
