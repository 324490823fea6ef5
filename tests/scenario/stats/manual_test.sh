#!/bin/bash
# The commands of docs/vma_stats.md print what it shows: the examples of the original's manual.
#
#	manual_test.sh [--write]	--write: writes what they print into the document
#
#	c  v0 10.9.0.1 ---------- v0 10.9.0.2  s
#	sockperf, vma_stats       sockperf, by the kernel
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

needs sockperf pgrep
stats=$(find_program tools/vma/vma_stats) || exit 1
export MANUAL_TMP=$netns_tmp/hosts VMA_STATS_SHMEM_DIR=$netns_tmp/pages VMA_TRACELEVEL=info
mkdir $VMA_STATS_SHMEM_DIR $netns_tmp/bin
cp "$stats" $netns_tmp/bin/vma_stats
netns_pair ""
check "docs/vma_stats.md" timeout -s KILL 200 python3 tests/scenario/stats/manual.py docs/vma_stats.md "$lib" $netns_tmp/bin "$@"
verdict
