# Sourced by tests with programs of others: a server and its clients, through the kernel, and with
# the library at the server, at the clients, and at both.
#
#	c  v0 10.9.0.1/24 ------------ v0 10.9.0.2/24  s
#	clients                       servers
#
# A test defines `visit`, which consists of serve, use and facts and runs once for each of these,
# and ends with `visits`. By hand, as root:
#
#	[LIB=path/to/libvma.so] tests/programs/redis_test.sh [-c | -l] [REGEX]
#
# REGEX selects from: kernel server client both.  -c: each side has an emulated ConnectX card
# (tests/mlx5).  -l: both are on one host, where two sides with the library have shared memory: kernel
# and both only.

NETNS_LIMIT=${NETNS_LIMIT:-850}
. tools/lib/netns.sh
netns_enter "$self" "$@"
if [[ ${1:-} == -c ]]; then
	NETNS_CARD=1
	shift
fi
if [[ ${1:-} == -l ]]; then
	NETNS_ONE_HOST=1
	export VMA_LOCAL=1
	shift
	set -- "${1:-^(kernel|both)$}"
fi
chosen=${1:-.}
netns_pair ""

# serve NAME PORT COMMAND...: a server in s, with the library if the visit has it there, until the
# visit ends; $served is its process. $work/NAME.log gets its output.
serve() {
	local name=$1 port=$2

	shift 2
	netns_exec s "$lib_s" 0-1023 "$@" > "$work/$name.log" 2>&1 < /dev/null &
	served=$!
	servers+=("$served")
	check "$what: $name listens" gets_up $served "$port" && return
	tail -n 20 "$work/$name.log"
	return 1
}

gets_up() {
	await 30 server_is_up "$@" && ! is_gone "$1"
}

# As `listens s PORT` of TCP says, but by the files of the server's process, which has its namespace: no program starts.
server_is_up() {
	local port

	[[ $2 != udp:* ]] || { listens s "$2" || is_gone "$1"; return; }
	printf -v port ':%04X ' "$2"
	file_has "/proc/$1/net/tcp" "${port}00000000:0000 0A" ||
		file_has "/proc/$1/net/tcp6" "${port}00000000000000000000000000000000:0000 0A" || is_gone "$1"
}

# use NAME COMMAND...: a client in c, until it ends, ${patience:-100} seconds at most; returns its
# status. $work/NAME.log gets its output, which is shown when the client fails.
use() {
	local rc=0

	(netns_exec c "$lib_c" 0-1023 timeout -s KILL "${patience:-100}" "${@:2}" > "$work/$1.log" 2>&1 < /dev/null) ||
		rc=$?
	((rc == 0)) || tail -n 20 "$work/$1.log"
	return $rc
}

# show_what_waits: before a client is killed for being late, once: what each thread and each namespace is at.
show_what_waits() {
	local task

	until pgrep -O 90 -f '^timeout -s KILL 100 ' > /dev/null; do
		sleep 2 # beside the test: nobody waits for it
	done
	for task in /proc/[0-9]*/task/[0-9]*; do
		echo "$task $(< "$task/comm") $(cut -d' ' -f3 "$task/stat") call $(< "$task/syscall"):" \
			$(cut -d' ' -f2 "$task/stack")
	done
	show_namespaces
	sleep 3 # what the counters gain meanwhile
	show_namespaces
} 2> /dev/null

show_namespaces() {
	local ns

	for ns in c s; do
		in_ns "$ns" ss -tuanoi
		in_ns "$ns" ip -s -d link show v0
		in_ns "$ns" ip neigh show
		in_ns "$ns" nstat -as # leaves no history in /tmp
	done
}

# says NAME REGEX: a line of its log matches.
says() {
	grep -qE -- "$2" "$work/$1.log" && return
	tail -n 20 "$work/$1.log"
	return 1
}

# awaits NAME N: iperf3 -s --forceflush, serving as NAME, waits for its N-th test. After each test it
# closes its listener and opens another one; a client that comes meanwhile is reset or refused,
# through the kernel as well.
awaits() {
	await 30 is_at_test "$@"
}

is_at_test() {
	(($(grep -c '^Server listening on' "$work/$1.log") == $2))
}

# stop PID [SIGNAL]: returns its status; it has 30 seconds.
stop() {
	kill -"${2:-TERM}" "$1" 2> /dev/null
	await 30 is_gone "$1" || kill -KILL "$1"
	wait "$1"
} 2> /dev/null

# Segments and datagrams that the kernel of a namespace received, without those that it answered
# with a reset: these came late for an ended connection.
kernel_saw() {
	local tcp resets udp no_ports

	read -r tcp resets udp no_ports < <(netns_counters "$1" TcpInSegs TcpOutRsts UdpInDatagrams UdpNoPorts)
	echo "$tcp-$resets+$udp+$no_ports"
}

# saw NAMESPACE LIB BEFORE STRAY: with LIB, its kernel saw at most STRAY packets, otherwise some.
saw() {
	local n=$(($(kernel_saw "$1") - ($3)))

	((${#2} ? n <= $4 : n > 0)) && return
	echo "$n packets"
	return 1
}

# unseen: so far the kernel has not seen accelerated traffic; it saw the other traffic, otherwise
# this proves nothing. The kernel gets packets for an ended process, and a datagram that arrives
# before bind(): some packets among thousands. On one host any connection may be the kernel's, if the server
# has no processor when it is asked (docs/local.md): scenario/local tests what goes where.
unseen() {
	[[ ! ${NETNS_ONE_HOST:-} ]] || return 0
	check "$what: what the server's kernel saw" saw s "$lib_s" "$saw_s" "${stray:-20}"
	check "$what: what the clients' kernel saw" saw c "$lib_c" "$saw_c" "${stray:-20}"
}

# one_visit SIDES
one_visit() {
	local what=$1 servers=() served lib_s="" lib_c="" work=$netns_tmp/$1 saw_s saw_c pid

	[[ $1 == server || $1 == both ]] && lib_s=$lib
	[[ $1 == client || $1 == both ]] && lib_c=$lib
	mkdir -p "$work"
	chmod 777 "$work"
	saw_s=$(kernel_saw s)
	saw_c=$(kernel_saw c)
	visit
	for pid in "${servers[@]}"; do
		stop "$pid"
	done
	check "$what: no warnings of the library" \
		awk '/VMA (WARNING|ERROR|PANIC)/ { print FILENAME ": " $0; bad = 1 } END { exit bad }' "$work"/*.log
}

# load NAME OPTION...: wrk in c, until unload; $loading is its shell, and $progress what progress.lua
# writes.
load() {
	progress=$work/$1.progress
	: > "$progress"
	# In the background wrk ignores SIGINT until it handles it.
	PROGRESS=$progress patience=250 use "$1" wrk --timeout 60s -d 240s -s tests/programs/progress.lua "${@:2}" &
	loading=$!
}

# goes_on [HUNDREDS]: from now on the load gets so many answers more.
goes_on() {
	local from

	from=$(progress_size)
	# The first hundred may have begun before.
	await 100 has_grown $((from + 1 + ${1:-1})) && ! is_gone $loading
}

has_grown() {
	local dots=

	read -r dots < "$progress"
	((${#dots} >= $1)) || is_gone $loading
}

progress_size() {
	local dots=

	read -r dots < "$progress"
	echo ${#dots}
}

# unload: returns the status of wrk, which has run until now.
unload() {
	is_gone $loading && echo "wrk has ended" && return 1
	await 30 has_stopped
	wait $loading
}

# Repeats the signal: wrk may not have got to where it ends it.
has_stopped() {
	pkill -INT -x wrk
	is_gone $loading
}

# are_new COMMAND: the processes that it names; there are some, and none of $old is among them.
are_new() {
	local new

	new=$("$1") && ! grep -qxF "$old" <<< "$new"
}

# configure_nginx MARK: what /mark answers.
configure_nginx() {
	sed "/^#/d; s|\$WORK|$work|; s|\$MARK|$1|" tests/programs/nginx.conf > "$work/nginx.conf"
}

# asks NAME HUNDREDS OPTION...: wrk in c, until it has so many answers.
asks() {
	local loading progress rc=0

	load "$1" "${@:3}"
	goes_on "$2" || rc=1
	unload && return $rc
}

# answered NAME: every request of this wrk was answered.
answered() {
	check "$what: ... and answers" says "$1" '^ +[1-9][0-9]* requests in'
	check "$what: ... all of them" none_failed "$1"
}

none_failed() {
	! grep -E 'Socket errors|Non-2xx' "$work/$1.log"
}

# visits [SIDES...]: runs all of them, or these; then prints the result.
visits() {
	local sides on=()

	show_what_waits &
	(($#)) || set -- kernel server client both
	for sides; do
		[[ $sides =~ $chosen && (-n $lib || $sides == kernel) ]] || continue
		one_visit $sides
		[[ $sides != server && $sides != both ]] || on+=(s)
		[[ $sides != client && $sides != both ]] || on+=(c)
	done
	[[ ! ${NETNS_CARD:-} ]] || check "the cards served, and nothing was violated" cards_good "${on[@]}"
	verdict
}
