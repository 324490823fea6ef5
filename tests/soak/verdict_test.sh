#!/bin/bash
# A run of tests/soak/soak.sh that comes to no verdict has failed, whatever the status with which it ends.
cd "$(dirname "$(realpath -s "$0")")/../.." || exit 2
said=$(mktemp)
trap 'rm -f "$said"' EXIT

tests/soak/soak.sh ../broken/ends server 2 1 > "$said" 2>&1
rc=$?
grep -q 'no load' "$said" && { cat "$said"; exit 2; }
((rc != 0)) && grep -q 'verdict' "$said" && exit
echo "status $rc:"
cat "$said"
exit 1
