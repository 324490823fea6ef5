#!/bin/bash
# vma run: the program runs with the library; what the dynamic loader would not
# load it into is refused with the reason.
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

vma=$(find_program "${VMA:-tools/vma/vma}") || exit 1
mkdir -p $netns_tmp/host/usr/bin $netns_tmp/host/usr/lib
cp "$vma" $netns_tmp/host/usr/bin/vma
vma=$netns_tmp/host/usr/bin/vma
out=$netns_tmp/out

# says STATUS WORDS COMMAND...: so it ends, and some line has the words.
says() {
	local rc

	"${@:3}" > $out 2>&1
	rc=$?
	((rc == $1)) && grep -qE -- "$2" $out && return
	echo "status $rc:"
	cat $out
	return 1
}

[[ -n $lib ]] || die "needs the library"
check "no library beside it" says 125 'libvma.so was not found; name it with --library' $vma run true
check "... and none of that name" says 125 'nothere was not found' $vma run --library nothere true
cp $lib $netns_tmp/host/usr/lib/libvma.so
export VMA_TRACELEVEL=none
check "it finds the installed one" says 0 "^vma run: true with $netns_tmp/host/usr/lib/libvma.so" $vma run true
check "the library is in the program" says 0 "$netns_tmp/host/usr/lib/libvma.so" $vma run cat /proc/self/maps
check "another one, by name" says 0 " $lib\$" $vma run --library $lib cat /proc/self/maps
check "quiet" says 0 '^only this$' $vma run --quiet echo only this
check "... nothing else is said" test "$(wc -l < $out)" = 1
check "the program's status and arguments" says 42 '^a b$' $vma run bash -c 'echo "$0 $1"; exit 42' a b
check "options after the program are its own" says 0 '^--quiet$' $vma run echo --quiet
cp $lib $netns_tmp/first.so
check "what was preloaded stays" says 0 "^$netns_tmp/host/usr/lib/libvma.so:$netns_tmp/first.so\$" \
	env LD_PRELOAD=$netns_tmp/first.so $vma run sh -c 'echo "$LD_PRELOAD"'
cp $lib "$netns_tmp/a space.so"
check "a path that LD_PRELOAD cannot hold" says 125 'no path with a space' $vma run --library "$netns_tmp/a space.so" true

check "there is no such program" says 127 'there is no program nothere' $vma run nothere
check "... nor such a file" says 127 'there is no program ./nothere' $vma run ./nothere
check "a file that is not executable" says 126 'Permission denied' $vma run /etc/passwd
check "no program" says 125 '^usage:' $vma run
check "an unknown option" says 125 '^usage:' $vma run --nothing true

around=(setpriv --reuid 65534 --regid 65534 --clear-groups)
chmod 755 $netns_tmp $netns_tmp/host $netns_tmp/host/usr $netns_tmp/host/usr/bin
cp /bin/true $netns_tmp/owned && chmod u+s $netns_tmp/owned
check "set-user-id, for another user" says 126 'owned cannot be accelerated: it is set-user-id' "${around[@]}" $vma run $netns_tmp/owned
check "... for its owner" says 0 'owned with' $vma run $netns_tmp/owned
cp /bin/true $netns_tmp/group && chmod g+s $netns_tmp/group
check "set-group-id" says 126 'group cannot be accelerated: it is set-user-id' "${around[@]}" $vma run $netns_tmp/group
cp /bin/true $netns_tmp/capable && setcap cap_net_raw+ep $netns_tmp/capable || die "no capabilities of files"
check "a file with capabilities" says 126 'capable cannot be accelerated: its file has capabilities' "${around[@]}" $vma run $netns_tmp/capable
check "a static program" says 126 'it is statically linked' $vma run "$(find_program tests/scenario/tools/static_program)"
cp /bin/true $netns_tmp/narrow && printf '\001' | dd of=$netns_tmp/narrow bs=1 seek=4 conv=notrunc status=none
check "a program of 32 bits" says 126 'it is not a 64-bit program' $vma run $netns_tmp/narrow
printf '#!/bin/sh\necho script\n' > $netns_tmp/script && chmod +x $netns_tmp/script
check "a script" says 0 '^script$' $vma run $netns_tmp/script

check "help" says 0 '^ *doctor ' $vma help
check "help for a command" says 0 'vma run \[OPTION' $vma help run
check "no such command" says 3 'there is no command nothing' $vma nothing
check "its version" says 0 '^[0-9]+\.[0-9]+\.[0-9]+' $vma --version

verdict
