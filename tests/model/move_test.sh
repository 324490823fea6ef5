#!/bin/bash
# Spin searches all of move.pml: it must find no error in any variant, an error in every mutation,
# and every place that is marked as reachable.
#
#	tests/model/move_test.sh [VARIANT[,NAME...]]	one of them, by hand
set -u
cd "$(dirname "$0")/../.." || exit 2
model=$PWD/tests/model/move.pml

for tool in spin gcc; do
	command -v $tool > /dev/null && continue
	echo "no $tool: tools/test installs it (as root: apt-get install $tool)"
	exit 1
done

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

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# search VARIANT[,NAME...]: prints the number of errors and of states; $tmp/out gets Spin's output.
search() {
	cd "$tmp" || return 1
	rm -rf pan* move.pml*
	# Not optimised: gcc would need more time for these functions than Spin for the search.
	{ spin -D${1//,/ -D} -a "$model" &&
		gcc -w -DSAFETY -DNOFAIR -DCOLLAPSE -DVECTORSZ=1024 -DMEMLIM=4000 -o pan pan.c &&
		./pan -n -m100000 -w20; } > out 2>&1
	sed -nE 's/^State-vector.* errors: ([0-9]+)$/\1/p; s/^ *([0-9]+) states, stored.*/\1/p' out | paste -sd ' '
}

failures=0

verdict() {
	local bad=$1 what=$2

	if [[ -z $bad ]]; then
		echo "ok   $what: $states states, $((SECONDS - start)) s"
	else
		echo "FAIL $what: $bad"
		tail -n 20 "$tmp/out"
		failures=$((failures + 1))
	fi
}

is_right() {
	local variant=$1 errors states reached start=$SECONDS bad=""

	shift
	read -r errors states < <(search "$variant")
	reached=$(sed -n 's/^reach //p' "$tmp/out" | sort -nu | paste -sd ' ')
	if [[ ${errors:-} != 0 ]]; then
		bad="errors: ${errors:-none counted}"
	elif grep -qiE '^(error|pan: (reached|out of))|not completed|max search depth' "$tmp/out"; then
		bad="not searched to the end"
	elif [[ $reached != "$*" ]]; then
		bad="reached: $reached, not: $*"
	fi
	verdict "$bad" "$variant"
}

is_found() {
	local errors states start=$SECONDS bad=""

	read -r errors states < <(search "${1%%,*},FRAMES=2,${1#*,}")
	[[ ${errors:-} == 1 ]] || bad="errors: ${errors:-none counted}"
	verdict "$bad" "$1"
}

if (($#)); then
	search "$1"
	cat "$tmp/out"
	exit
fi
for variant in "${right[@]}"; do
	# shellcheck disable=SC2086 # the name, then numbers
	is_right $variant
done
for variant in "${wrong[@]}"; do
	is_found "$variant"
done
echo "$failures failures"
((failures == 0))
