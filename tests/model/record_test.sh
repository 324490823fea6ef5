#!/bin/bash
# Spin searches all of record.pml: every variant must be right, every mutation of it must be
# found wrong, and what is claimed never to happen must be found to happen.
#
#	tests/model/record_test.sh [VARIANT[,NAME...]]	one of them, by hand
set -u
cd "$(dirname "$0")/../.." || exit 2
model=$PWD/tests/model/record.pml
. tests/model/search.sh

# Each with the places of interest it must come to: reach(n) in record.pml.
right=(
	"RECORDS=2 1 2 3 4 7 8 9 10"
	"DEATHS=1 1 2 3 4 5 6 7 8 9 10"
	"RECORDS=1,DEATHS=2 1 2 4 5 6 7 8 9 10"
	"WRITERS=3,RECORDS=1 1 2 3 4 7 8 9 10"
)

# What is left out or wrong.
wrong=(
	NO_DESCRIBE        # nobody knows the length of a reservation
	RECORDS=4,NO_LAP   # a late writer describes what has gone
	NO_COMPARE         # the same, or over a commit
	HEAD_PAST_HOLES    # cells are used again that a writer fills
	NEXT_FIRST         # a record overtakes one of the same writer
	DEATHS=1,KEEP_GONE # cells are lost
)

run "$@"
