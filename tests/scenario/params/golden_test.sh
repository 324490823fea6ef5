#!/bin/bash
# The banner and the warnings are the manuals' examples, but for intended differences, which
# golden/*.intended lists with their reasons.
self=$(realpath -s "$0")
cd "${self%/*}/../../.." || exit 2
. tools/lib/netns.sh
netns_enter "$self" "$@"

needs python3 setpriv
here=tests/scenario/params
netns_pair ""
[[ -n $lib ]] || verdict
chmod 755 $netns_tmp # for other users

# golden WHAT NAME LOG: LOG is the example NAME.
golden() {
	check "$1" eval "python3 $here/golden.py $2 < $3"
}

vma_env=(VMA_TRACELEVEL=details)
netns_run c "$lib" true > $netns_tmp/log
golden "the banner" banner $netns_tmp/log
vma_env=(VMA_TRACELEVEL=4)
netns_run c "$lib" true | sed 's/^ Pid: *[0-9]* Tid: *[0-9]*//' > $netns_tmp/log
sed -n '1,5p' $netns_tmp/log > $netns_tmp/box
golden "a high log level" high_level $netns_tmp/box
check "to the letter" diff $here/golden/high_level.seed $netns_tmp/box

# sends PRIVILEGES...: an accelerated socket, as a user with these options of setpriv.
sends() {
	vma_env=(VMA_TRACELEVEL=warn "${variables[@]}")
	around=(setpriv --reuid nobody --regid nogroup --clear-groups "$@")
	(netns_exec c "$lib" 0-1023 /usr/bin/python3 -I -c "
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('$netns_server', 9))") \
		> $netns_tmp/log 2>&1 < /dev/null
	cat $netns_tmp/log
}

caps=+net_admin,+net_raw,+bpf
variables=(VMA_LOCAL=0) # else it is one line of VMA INFO: some connections are accelerated
sends --inh-caps=-all
variables=()
golden "no capabilities" capabilities $netns_tmp/log
(
	ulimit -l 64
	sends --inh-caps=$caps --ambient-caps=$caps
)
golden "too little memory may be locked" memlock $netns_tmp/log

# ---- warnings that the manuals do not have

# warns COMMAND...: the frame that the library prints, as plain lines.
warns() {
	vma_env=(VMA_TRACELEVEL=warn)
	netns_run c "$lib" "$@" | grep -oE 'VMA WARNING: \* .*' | sed -E 's/^VMA WARNING: \* *//; s/ *\*$//; s/^(Descriptor) [0-9]+/\1 N/' > $netns_tmp/box
}

# frame WHAT: the lines of the frame, on standard input.
frame() {
	check "$1" diff - $netns_tmp/box
}

warns /usr/bin/python3 -I -c "
import os, resource, socket
free = os.dup(0)
os.close(free)
resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, 4096))
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('$netns_server', 9))"
frame "no descriptors to start with" << END
No socket of this process is accelerated.
Too few descriptors (ulimit -n): Too many open files
The program runs through the kernel.
END
netns_spawn $netns_tmp/listener s "" python3 -I -c "
import socket
listener = socket.create_server(('$netns_server', 7000))
print('ready', flush=True)
kept = []
while True:
    kept.append(listener.accept())" || die "no listener"
warns /usr/bin/python3 -I -c "
import os, socket
conn = socket.create_connection(('$netns_server', 7000))
os.set_inheritable(conn.fileno(), True)
os.seteuid(65534)
os.execve('/bin/true', ['true'], {})"
frame "a connection that an exec ends" << END
Descriptor N is not inherited by the program that is executed.
The program needs the kernel to serve the connection, but kernel
handover failed: Operation not permitted (TCP_REPAIR needs CAP_NET_ADMIN). It is closed.
END
# Where there are enough huge pages they are used: effects_test.sh.
free=$(awk '/^HugePages_Free/ { print $2 }' /proc/meminfo)
if ((free < 8)); then
	variables=(VMA_MEM_ALLOC_TYPE=2)
	sends --inh-caps=$caps,+ipc_lock --ambient-caps=$caps,+ipc_lock
	golden "too few huge pages" huge_pages $netns_tmp/log
fi
verdict
