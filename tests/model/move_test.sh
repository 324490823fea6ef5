#!/bin/bash
# Spin searches all of move.pml: it must find no error in any variant, an error in every mutation,
# and every place that is marked as reachable.
#
#	tests/model/move_test.sh [VARIANT[,NAME...]]	one of them, by hand
set -u
cd "$(dirname "$0")/../.." || exit 2
model=$PWD/tests/model/move.pml
. tests/model/search.sh

# Each with the places reach(n) of move.pml that it must reach. Order matters only for datagrams;
# where it does not, two frames are enough.
right=(
	"UDP 1 2 6 7 9 12 13 14 17 18 19 21"
	"TCP,FRAMES=2 1 2 6 7 9 11 12 14 15 17 18 19 20 21 22"
	"WIDE 2 3 4 6 7 10 13 14 16 17 18 21"
	"OTHER 2 3 4 6 7 10 12 13 14 16 17 18 21"
	"STAYS 1 2 3 4 6 7 9 10 13 14 16 17 18 19 21"
)

# What is left out or wrong; small variants, because the error appears soon.
small=FRAMES=2,
wrong=(
	UDP,STEER_FIRST            # the stand-in is listed too late
	UDP,NO_UNSTEER             # the old flow removes the entry when it leaves
	UDP,NO_PARK                # the stand-in drops frames
	UDP,NO_BARRIER             # frames reach a queue that no thread polls
	TCP,NO_BARRIER
	UDP,NO_DRAIN               # so do frames that are parked there
	OTHER,NO_DRAIN_OTHER
	OTHER,OTHERS_LATE          # flows of other rings leave after home did
	WIDE,NO_STAY_PARK          # flows that stay forward to two homes at the same time
	STAYS,NO_STAY_PARK
	STAYS,NO_RESTEER           # a refusal is not undone
	UDP,NO_OLD_FLOW_DEL
	UDP,NO_CHANGE_HOME         # ARRIVE runs on a ring that is not home yet
	UDP,POST_LAST              # home changes before ARRIVE was posted
	TCP,MOVES=1,STORE_HOME     # LEAVE changes it again, after ARRIVE
	UDP,DRAIN_FIRST            # the inbox is checked before home
	UDP,NO_DRAIN_INBOX         # or not at all
	WIDE,NO_SECOND_LOOK        # no second check after the release
	WIDE,NO_TRY                # the ring that was posted to is not tried
	UDP,NO_LAST_HOLD           # the move is freed before ARRIVE has run
	UDP,WAIT_HOLDING           # a thread waits for a ring while it holds another one
	UDP,MOVES=1,NO_CANCEL      # close() does not end the move
	TCP,MOVES=1,NO_FOLLOW      # the move cannot find the connection any more
	TCP,MOVES=1,NO_LEAVE_CHECK # an ended connection moves
	TCP,MOVES=1,NO_SECOND_CHECK # or that ends while its ring is drained
	STAYS,MOVES=1,NO_GENERATION # a frame reaches the next socket
)

run "$@"
