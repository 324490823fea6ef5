#!/bin/bash
# tools/demo: without root, two programs of one host; as root, two hosts as well. The library's rows say
# that the kernel saw no packet. Two demos run at a time, one in h and the other one elsewhere: no figure is judged,
# and half of a row's time sockperf sleeps.
#
#	h, g  lo    a demo, as nobody
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

# Where nobody can read it, nowhere near a build, and not below /run, which the demo gets anew.
demo=/mnt
seconds=1
mount -t tmpfs none $demo && mkdir -p $demo/tools/lib && cp $lib tools/demo $demo/tools/ &&
	cp tools/lib/{netns,install}.sh $demo/tools/lib/ && chmod -R a+rX $demo || die "no copy of the demo"
netns_new h
netns_new g
# All that the demo needs but sockperf.
mkdir $netns_tmp/bin && ln -s $(type -P bash env id nsenter readlink setpriv taskset) $netns_tmp/bin || die "no tools"

# shows NAMESPACE LOG COMMAND...: the demo, by that command.
shows() {
	(netns_exec "$1" "" 0-1023 "${@:3}" env LIB=$demo/tools/libvma.so $demo/tools/demo $seconds > "$2" 2>&1 < /dev/null)
}

# rows LOG PROTOCOL PACKETS-OF-EACH-PLACE: how many rows of the library say that.
rows() {
	grep -cE "^libvma +$2( +[0-9.]+){4} +([0-9.]+ x|-)$3\$" "$1"
}

as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
log=$netns_tmp/log.root
shows g $log env &
root=$!
nobody=$netns_tmp/log.nobody
check "without root" shows h $nobody "${as_nobody[@]}" || cat $nobody
for protocol in UDP TCP; do
	check "... $protocol, and the kernel saw no packet" test "$(rows $nobody $protocol ' +0')" = 1 || cat $nobody
done
check "... only one host" eval '! grep -q "at server" $nobody'
check "... says what root would see" grep -q '^As root' $nobody
check "nothing is left" test -z "$(find /tmp -maxdepth 1 -user nobody -newer $demo/tools/demo -name 'tmp.*')"

check "as root" wait $root || cat $log
for protocol in UDP TCP; do
	check "... $protocol, one host, and two" \
		test "$(rows $log $protocol ' +0') $(rows $log $protocol ' +0 +0')" = "1 1" || cat $log
done
# Of three tables: the kernel alone can be held up for seconds, which is no failure of the library's.
for label in "kernel" "kernel, spinning"; do
	for protocol in UDP TCP; do
		check "$label $protocol, and the kernel saw the packets" \
			grep -hqE "^$label +$protocol( +[0-9.]+){4} +([0-9.]+ x|-)( +[1-9][0-9]+)+\$" $nobody $log ||
			cat $nobody $log
	done
done

# breaks DIRECTORY CONDITION: a sockperf there that fails at once where the condition holds.
breaks() {
	local real

	real=$(type -P sockperf) || die "no sockperf"
	mkdir -p "$1" && printf '#!/bin/bash\n! { %s; } || exit 1\nexec %s "$@"\n' "$2" "$real" > "$1/sockperf" &&
		chmod a+rx "$1" "$1/sockperf" || die "no other sockperf"
}

breaks $demo/ours '[[ ${LD_PRELOAD:-} ]]'
ours=$netns_tmp/log.ours
PATH=$demo/ours:$PATH shows g $ours "${as_nobody[@]}" &
broken=$!
breaks $demo/kernel '[[ " $* " == *" --nonblocked "* ]]'
log=$netns_tmp/log.kernel
check "a row of the kernel that fails" eval 'PATH=$demo/kernel:$PATH shows h $log "${as_nobody[@]}"' || cat $log
# On a busy machine the other rows of the kernel may fail, too: each says so.
failed=$(grep -cE '^kernel(, spinning)? (UDP|TCP) failed' $log)
check "... says so, and why it may be" test "$(grep -cE '^kernel, spinning (UDP|TCP) failed' $log) $(
	grep -c '^segments sent again before: ' $log) $(grep -c '^stolen ticks of each processor before: ' $log)" = "2 $failed $failed" || cat $log
check "... and those of the library are there" test "$(rows $log UDP ' +0') $(rows $log TCP ' +0')" = "1 1" || cat $log
check "a row of the library that fails is a failure" \
	eval '! wait $broken && test "$(grep -cE "^libvma (UDP|TCP) failed" $ours)" = 2' || cat $ours

check "without sockperf it says what to install" \
	eval '! PATH=$netns_tmp/bin shows h $log "${as_nobody[@]}" && grep -q "tools/lib/install.sh demo" $log' || cat $log
verdict
