#!/bin/bash
# Spin searches all of notice.pml: every variant must be right, every mutation of it must be
# found wrong, and what is claimed never to happen must be found to happen.
#
#	tests/model/notice_test.sh [VARIANT[,NAME...]]	one of them, by hand
set -u
cd "$(dirname "$0")/../.." || exit 2
model=$PWD/tests/model/notice.pml
. tests/model/search.sh

# Each with the places of interest it must come to: reach(n) in notice.pml.
right=(
	"POSTS=4 1 2 3 4 6 7"
	"POSTS=4,FENCED 1 2 3 4 6 7"
	"POSTS=4,DEATHS=1 1 2 3 4 5 6 7 8"
	"POSTS=4,DEATHS=1,FENCED 1 2 3 4 5 6 7 8"
)

# What is left out or wrong.
wrong=(
	FENCED,NO_FENCE    # the load of armed overtakes the stores
	NO_BARRIER         # the same, and that of posted
	OWN_FENCE          # the writer's load of armed still does
	LOOK_FIRST         # the reader arms in between
	LOOK_BEFORE_ARMING # a notice in between
	NO_LOOK            # the same
	POSTED_FIRST       # the reader takes what is not in the slot yet
	NO_SECOND_LOOK     # a slot was overwritten
	LOOK_TOO_LATE      # the same, by a notice that is not counted yet
	NO_GROUPS          # too many notices for the slots
	DEATHS=1,NO_LAST_LOOK # it died before it posted
)

run "$@"
