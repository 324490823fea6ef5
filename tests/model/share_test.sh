#!/bin/bash
# Spin searches all of share.pml: every variant must be right, every mutation of it must be
# found wrong, and what is claimed never to happen must be found to happen.
#
#	tests/model/share_test.sh [VARIANT[,NAME...]]	one of them, by hand
set -u
cd "$(dirname "$0")/../.." || exit 2
model=$PWD/tests/model/share.pml
. tests/model/search.sh
whole=$soon # it has few states

# Each with the places of interest it must come to: reach(n) in share.pml.
right=(
	"CALLS=2 4 10"
	"CALLS=2,CLOSES 1 4 10"
	"CALLS=1,CLOSES,EXITS 1 3 4 6 8 10"
	"CALLS=1,CLOSES,FAILS=1 1 4 5 10"
	"CALLS=1,CLOSES,EXITS,DEATHS=1,FAILS=1 1 2 3 4 5 6 7 8 9 10"
	"CALLS=2,CLOSES,EXITS,DEATHS=1 1 2 3 4 6 7 8 9 10"
)

# What is left out or wrong.
wrong=(
	CLOSES,SETTLE_IN_TRANSIT # it ends before the answer
	CLOSES,NO_CLOSED         # nobody learns that it was the last
	CLOSES,ACK_DROPS         # the same, if it was closed in transit
	CLOSES,FORGET_CLOSED     # the same, at the other end
	CLOSES,DEATHS=1,FORGET_LOST # one who has nothing is still counted
	DEATHS=1,LOSE_IN_TRANSIT # nobody had taken it from the message
	FAILS=1,NO_STAYS         # a call waits for an answer
	CALLS=1,NO_REVERSE       # nobody knows where it went
	CALLS=1,SERVE_IN_TRANSIT # two have it
)

run "$@"
