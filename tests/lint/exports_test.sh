#!/bin/bash
# libvma.so exports exactly the functions that src/intercept/calls.h lists, and needs no library but
# libc.
. "$(dirname "$0")/lib.sh"

lib=${1:-$bin/libvma.so}
[[ $lib == /* ]] || lib=$TEST_SRCDIR/$TEST_WORKSPACE/$lib
dynamic=$(readelf -d "$lib") || complain "cannot read $lib"

# Not read from the version script, which could be wrong itself.
listed=$(printf '#define CALL(type, name, ...) @name@\n#include "intercept/calls.h"\n' |
	gcc -E -P -iquote src -x c - | grep -oE '@[a-zA-Z0-9_]+@' | tr -d @ | sort)
# gold leaves local thread-local symbols in the table; no other object can use them.
exported=$(nm -D --defined-only --extern-only "$lib" | awk '{ print $NF }' | sed 's/@.*//' | sort)
[[ -n $listed ]] || complain "calls.h lists nothing"
if ! diff <(echo "$listed") <(echo "$exported"); then
	complain "listed in calls.h (<) and exported (>) differ"
fi
twice=$(uniq -d <<< "$listed")
[[ -z $twice ]] || complain "listed twice: $twice"

needed=$(sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' <<< "$dynamic")
while read -r so; do
	case $so in
	'' | libc.so.* | ld-linux* | libasan.so.* | libubsan.so.* | libtsan.so.*) ;;
	*) complain "needs $so" ;;
	esac
done <<< "$needed"
grep -q TEXTREL <<< "$dynamic" && complain "has text relocations"
[[ $dynamic == *'Library soname: [libvma.so]'* ]] || complain "soname is not libvma.so"
[[ $dynamic == *NOW* ]] || complain "is not bound at load (-z now)"
readelf -lW "$lib" | grep -q 'GNU_STACK.*RWE' && complain "wants an executable stack"
echo "$(wc -w <<< "$exported") exported; needs $(tr '\n' ' ' <<< "$needed")"
verdict
