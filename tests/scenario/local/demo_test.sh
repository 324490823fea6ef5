#!/bin/bash
# tools/demo: without root, two programs of one host; as root, two hosts as well. The library's rows say
# that the kernel saw no packet.
#
#	h  lo    the demo, as nobody
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"
netns_needs_lib

# Where nobody can read it, nowhere near a build, and not below /run, which the demo gets anew.
demo=/mnt
seconds=1
log=$netns_tmp/log
mount -t tmpfs none $demo && mkdir -p $demo/tools/lib && cp $lib tools/demo $demo/tools/ &&
	cp tools/lib/{netns,install}.sh $demo/tools/lib/ && chmod -R a+rX $demo || die "no copy of the demo"
netns_new h
# All that the demo needs but sockperf.
mkdir $netns_tmp/bin && ln -s $(type -P bash env id nsenter readlink setpriv taskset) $netns_tmp/bin || die "no tools"

# shows COMMAND...: the demo, by that command.
shows() {
	(netns_exec h "" 0-1023 "$@" env LIB=$demo/tools/libvma.so $demo/tools/demo $seconds > $log 2>&1 < /dev/null)
}

# rows PROTOCOL PACKETS-OF-EACH-PLACE: how many rows of the library say that.
rows() {
	grep -cE "^libvma +$1( +[0-9.]+){4} +([0-9.]+ x|-)$2\$" $log
}

as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
check "without root" eval 'shows "${as_nobody[@]}"' || cat $log
for protocol in UDP TCP; do
	check "... $protocol, and the kernel saw no packet" test "$(rows $protocol ' +0')" = 1 || cat $log
done
check "... only one host" eval '! grep -q "at server" $log'
check "... says what root would see" grep -q '^As root' $log
check "nothing is left" test -z "$(find /tmp -maxdepth 1 -user nobody -newer $demo/tools/demo -name 'tmp.*')"
cp $log $log.nobody

check "as root" eval 'shows env' || cat $log
for protocol in UDP TCP; do
	check "... $protocol, one host, and two" test "$(rows $protocol ' +0') $(rows $protocol ' +0 +0')" = "1 1" || cat $log
done
# Of three tables: the kernel alone can be held up for seconds, which is no failure of the library's.
for label in "kernel" "kernel, spinning"; do
	for protocol in UDP TCP; do
		check "$label $protocol, and the kernel saw the packets" \
			grep -hqE "^$label +$protocol( +[0-9.]+){4} +([0-9.]+ x|-)( +[1-9][0-9]+)+\$" $log.nobody $log ||
			cat $log.nobody $log
	done
done

# breaks CONDITION: a sockperf that fails at once where the condition holds.
breaks() {
	local real

	real=$(type -P sockperf) || die "no sockperf"
	mkdir -p $demo/bin && printf '#!/bin/bash\n! { %s; } || exit 1\nexec %s "$@"\n' "$1" "$real" > $demo/bin/sockperf &&
		chmod a+rx $demo/bin $demo/bin/sockperf || die "no other sockperf"
}

breaks '[[ " $* " == *" --nonblocked "* ]]'
check "a row of the kernel that fails" eval 'PATH=$demo/bin:$PATH shows "${as_nobody[@]}"' || cat $log
# On a busy machine the other rows of the kernel may fail, too: each says so.
failed=$(grep -cE '^kernel(, spinning)? (UDP|TCP) failed' $log)
check "... says so, and why it may be" test "$(grep -cE '^kernel, spinning (UDP|TCP) failed' $log) $(
	grep -c '^segments sent again before: ' $log) $(grep -c '^stolen ticks of each processor before: ' $log)" = "2 $failed $failed" || cat $log
check "... and those of the library are there" test "$(rows UDP ' +0') $(rows TCP ' +0')" = "1 1" || cat $log
breaks '[[ ${LD_PRELOAD:-} ]]'
check "a row of the library that fails is a failure" \
	eval '! PATH=$demo/bin:$PATH shows "${as_nobody[@]}" && test "$(grep -cE "^libvma (UDP|TCP) failed" $log)" = 2' || cat $log

check "without sockperf it says what to install" \
	eval '! PATH=$netns_tmp/bin shows "${as_nobody[@]}" && grep -q "tools/lib/install.sh demo" $log' || cat $log
verdict
