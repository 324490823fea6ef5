#!/bin/bash
# curl: a large download, persistent connections, an upload, many connections, a missing server, and
# one that ends in the middle; the server is python3's http.server.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tests/programs/programs.sh
needs curl python3

url=http://$netns_server:8000

visit() {
	local i urls=()

	head -c 30000000 /dev/urandom > "$work/large"
	serve http 8000 python3 tests/programs/http_server.py $netns_server 8000 "$work/large" || return
	check "$what: a download" use down curl -sS -o "$work/got" $url/large
	check "$what: ... whole" cmp "$work/got" "$work/large"
	check "$what: an upload" use up curl -sS -T "$work/large" $url/upload
	check "$what: ... whole" says up "^$(sha256sum < "$work/large" | cut -c 1-64)$"
	for ((i = 0; i < 50; i++)); do urls+=("$url/$i"); done
	check "$what: one connection for fifty requests" use kept curl -sS -w '%{num_connects}\n' "${urls[@]}"
	check "$what: ... it is one" test "$(awk '/^[01]$/ { n += $1 } END { print n }' "$work/kept.log")" == 1
	check "$what: fifty at once" use many curl -sS -Z --parallel-max 50 "${urls[@]}"
	check "$what: ... all answered" test "$(grep -oE 'path /[0-9]+' "$work/many.log" | sort -u | wc -l)" == 50
	check "$what: a range" use range curl -sS -r 1000-1999 -o "$work/part" $url/large
	check "$what: ... of that file" cmp "$work/part" <(tail -c +1001 "$work/large" | head -c 1000)
	use cut curl -sS -o /dev/null $url/cut
	check "$what: an answer that is cut off" test $? == 18
	use slow curl -sS -m 1 $url/slow
	check "$what: an answer that is missing" test $? == 28
	unseen
	use nobody curl -sS http://$netns_server:8001/
	check "$what: no server" test $? == 7
}
visits
