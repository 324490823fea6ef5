#!/bin/bash
# Go: net/http in a static program, which the library cannot intercept and must not harm.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs go
hello=$netns_tmp/hello
HOME=$netns_tmp GOCACHE=$netns_tmp/cache GOFLAGS=-mod=mod CGO_ENABLED=0 go build -o $hello tests/programs/hello.go ||
	die "it does not build"

visit() {
	serve server 7000 $hello serve $netns_server 7000 || return
	check "$what: everything is echoed" use client $hello ask $netns_server 7000 &&
		check "$what: ... it says" says client 'all right'
	# The kernel serves it, with and without the library.
	lib_s="" lib_c="" unseen
}
visits
