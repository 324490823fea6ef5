#!/bin/bash
# Two threads that need the library at the same time for the first time: no thread goes on before
# the initialisation is done.
#
# threads_test.sh PROGRAM LIBRARY
set -u
program=$1
library=$(readlink -f "$2")
failures=0

for moment in start stdio; do
	out=$(MOMENT=$moment VMA_TRACELEVEL=warn LD_PRELOAD="${SAN_RUNTIME:-} $library" timeout 60 "$program" 2>&1)
	rc=$?
	echo "$out"
	if ((rc)) || [[ $out != *"$moment: the other thread waits" ]]; then
		echo "FAIL $moment: exit status $rc"
		failures=$((failures + 1))
	fi
done
exit $((failures > 0))
