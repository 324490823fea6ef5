#!/bin/bash
# Programs read what their children print on stderr: in a tree of processes only the first one
# prints the banner, and the others only warn. A log file gets everything.
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

netns_pair ""
tree='bash -c true; bash -c "VMA_NO_SUCH_THING=1 bash -c true; true"'

# banners FILE...: the number of banners.
banners() {
	cat "$@" 2> /dev/null | grep -c VMA_VERSION
}

[[ -n $lib ]] || verdict
vma_env=(VMA_TRACELEVEL=info)
netns_run s "$lib" bash -c "$tree" > $netns_tmp/told 2>&1
check "one banner on stderr" test "$(banners $netns_tmp/told)" == 1
check "children warn" grep -q 'VMA WARNING: .*VMA_NO_SUCH_THING' $netns_tmp/told
netns_run s "$lib" bash -c 'exec 2> '$netns_tmp'/children; '"$tree" > $netns_tmp/parent 2>&1
check "none of children" test "$(grep -vc WARNING $netns_tmp/children)" == 0
vma_env=(VMA_TRACELEVEL=info "VMA_LOG_FILE=$netns_tmp/log.%d")
netns_run s "$lib" bash -c "$tree" > $netns_tmp/told 2>&1
check "nothing on stderr" test ! -s $netns_tmp/told
check "a log file of each process" test "$(banners $netns_tmp/log.*)" -ge 4
verdict
