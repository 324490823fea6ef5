#!/bin/bash
# python3's own tests: those that pass with the kernel pass with the library, too, over loopback,
# which the kernel serves, and over a link from one namespace to itself, which is accelerated.
#
#	v0 10.9.0.1 ------------ v1 10.9.0.2, which is "localhost"
#
#	tests/programs/python.sh TEST... [-m NAME]...
#
# Each of the four runs has namespaces of its own.  Left out are its tests of EINTR: they hang or fail
# when a process gets no processor between setting a timer and the call (sendall_interrupted, of a Unix
# socket, waits for ever then).  tests/diff judges EINTR with signals that repeat: suites wait, recv, send.
self=$(realpath -s "$0")
cd "${self%/*}/../.." || exit 2
. tools/lib/netns.sh
tests=("$@")
netns_enter "$self" "$@"
[[ -d /usr/lib/python3.11/test ]] || die "no libpython3.11-testsuite (tools/lib/install.sh test)"

# Packets between v0 and v1 use the link, although both are here; packets from an address to itself
# do not.
link_with_itself() {
	ip link add v0 netns "$1" type veth peer name v1 netns "$1" || die "no veth"
	netns_up "$1" v0 $netns_client
	netns_up "$1" v1 $netns_server
	await 30 netns_is_up "$1" v0 || die "the link stays down"
	in_ns "$1" sh -e -c '
		for i in all v0 v1; do
			echo 1 > /proc/sys/net/ipv4/conf/$i/accept_local
			echo 0 > /proc/sys/net/ipv4/conf/$i/rp_filter
		done
		ip rule add pref 1 iif v0 lookup local
		ip rule add pref 1 iif v1 lookup local
		ip rule add pref 1 from '$netns_server' to '$netns_server' lookup local
		ip rule add pref 2 lookup 100
		ip rule add pref 3 lookup local
		ip rule del pref 0
		ip route add '$netns_server' dev v0 src '$netns_client' table 100
		ip route add '$netns_client' dev v1 src '$netns_server' table 100' || die "no routes"
}

# here NAME LINK LIB OPTION...: one run in its own namespaces; NAME.xml gets the results.
here() {
	local name=$1 link=$2 preload=$3 out=$netns_tmp/$1 # with .xml, .log, and as a directory

	shift 3
	mkdir -p "$out"
	(
		export TMPDIR=$out HOME=$out
		cd "$out" || exit
		netns_exec "$name" "$preload" 0-1023 unshare --mount bash -c '
			if [[ $0 == link ]]; then
				cp -r /usr/lib/python3.11/test .
				# Certificates contain addresses: those of test_ssl stay.
				grep -rl "127\.0\.0\.1" test/test_*.py test/test_asyncio test/support |
					grep -v test_ssl | xargs sed -i "s/127\.0\.0\.1/'$netns_server'/g"
				mount --bind test /usr/lib/python3.11/test
				echo "'$netns_server' localhost" > hosts
				mount --bind hosts /etc/hosts
			fi
			exec timeout -s KILL 250 /usr/bin/python3.11 -m test -v -u network -i "*VSOCK*" \
				-i "*sendall_interrupted*" -i "*Interrupted*TimeoutTest*" "$@"' \
			"$link" --junit-xml "$out.xml" "$@" > "$out.log" 2>&1 < /dev/null
	)
}

# results FILE: lines of NAME and ok, failed or skipped.
results() {
	/usr/bin/python3.11 - "$1" << 'END_OF_PYTHON'
import sys
import xml.etree.ElementTree

for case in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
    tags = {child.tag for child in case}
    said = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "ok"
    print(case.get("name"), said)
END_OF_PYTHON
}

# It opens all descriptors but 32, and skips itself if there are fewer left: the library has some.
may_skip='\.test_above_fd_setsize skipped$'

# passes LINK: all tests that pass in its run without the library pass with it.
passes() {
	local plain=$netns_tmp/plain_$1 with=$netns_tmp/with_$1 bad=() ok

	check "$1: it runs on the kernel" test -s "$plain.xml" || tail -n 20 "$plain.log"
	check "$1: it runs with the library" test -s "$with.xml" || tail -n 20 "$with.log"
	results "$plain.xml" | sort > "$plain.txt"
	results "$with.xml" | sort > "$with.txt"
	mapfile -t bad < <(join <(grep ' ok$' "$plain.txt") <(grep -v "$may_skip" "$with.txt") |
		awk '$3 != "ok" { print $1 }')
	ok=$(grep -c ' ok$' "$plain.txt")
	check "$1: what passes on the kernel, $ok tests, passes with the library" test "$ok" -gt 0 -a ${#bad[@]} == 0 || {
		printf "%s\n" "${bad[@]:0:20}"
		grep -A25 -E '^(ERROR|FAIL): ' "$with.log"
	}
	check "$1: none is missing" test -z "$(join -v 1 "$plain.txt" "$with.txt")" ||
		join -v 1 "$plain.txt" "$with.txt" | head
	check "$1: no warnings of the library" awk '/VMA (WARNING|ERROR|PANIC)/ { print; bad = 1 } END { exit bad }' "$with.log"
}

# Segments and datagrams that the kernel received in that run. It answers each late segment of an
# ended connection with a reset; these may be many.
kernel_saw() {
	local tcp resets udp

	read -r tcp resets udp < <(netns_counters "$1" TcpInSegs TcpOutRsts UdpInDatagrams)
	echo $((tcp - resets + udp))
}

pids=()
for name in plain_loopback with_loopback plain_link with_link; do
	netns_new $name
	[[ $name == *_loopback ]] || link_with_itself $name
	[[ $name == with_* ]] && preload=$lib || preload=
	here $name ${name#*_} "$preload" "${tests[@]}" &
	pids+=($!)
done
wait "${pids[@]}"
passes loopback
passes link
if [[ -n $lib ]]; then
	plain=$(kernel_saw plain_link)
	with=$(kernel_saw with_link)
	echo "the kernel saw $plain packets, and with the library $with"
	check "the link is accelerated" test $((with * 5)) -le $plain
fi
verdict
