# Sourced by tests, after tools/lib/netns.sh: an emulated ConnectX card (card.h) in a namespace.
#
#	c  v0 10.9.0.1 ------- wire  w
#	                          card
#	                          mlx0 10.9.0.2  s
#
# Programs in s that run with "${card_env[@]}" find mlx5_0, whose interface is mlx0.

card_mac=02:c5:00:00:00:02
card_socket=$netns_tmp/card.sock
card_sys=$netns_tmp/sys
declare -gA cards # standard input of each, by its log

# card_start: joins c and s, and starts the card.  The cable ends in a namespace of its own, whose
# kernel answers nothing.
card_start() {
	netns_new c
	netns_new s
	netns_new w
	card_files mlx0
	ip link add v0 netns c type veth peer name wire netns w || die "no veth"
	# A cable carries whole frames, with their checksums.
	in_ns c ethtool -K v0 tx off tso off gso off gro off > /dev/null || die "ethtool"
	ip -n w link set wire up
	netns_up c v0 $netns_client
	card_run s w:wire mlx0 $card_mac $card_socket
	netns_up s mlx0 $netns_server
	await 30 card_answers || die "the cable carries nothing"
}

# card_pair TAG: c<TAG> and s<TAG>, which exist, get a card each, whose interface is v0, and a cable
# between them.  From then on $lib, and the environment, are for programs on these cards.
card_pair() {
	netns_new "w$1"
	ip link add w0 netns "w$1" type veth peer name w1 netns "w$1" || die "no veth"
	card_end "c$1" "w$1" w0
	card_end "s$1" "w$1" w1
}

# card_end NAMESPACE WIRES INTERFACE: a card there, whose cable is an interface in WIRES.  Its MAC is
# made of the namespace's name: processes know cards by it.
card_end() {
	local mac

	mac=$(printf %-4.4s "$1" | od -An -v -t x1 | sed 's/ /:/g')
	card_files v0
	export SYSFS_PATH=$card_sys CARD_SOCKET=@card
	[[ -z $lib || $lib == *:* ]] || lib+=:$netns_tmp/shim.so
	ip -n "$2" link set "$3" up
	card_run "$1" "$2:$3" v0 "02:c5$mac" @card
	cards[$card_log]=$card_in
}

# card_run NAMESPACE WIRE TAP MAC SOCKET: $card_in is its standard input.
card_run() {
	local card

	card=$(find_program tests/mlx5/card) || exit 1
	card_log=$netns_tmp/card.$1.log
	mkfifo "$netns_tmp/card.$1.in"
	: > "$card_log"
	netns_exec "$1" "" 0-1023 "$card" "$5" "$2" "$3" "$4" < "$netns_tmp/card.$1.in" > "$card_log" 2>&1 &
	card_pid=$!
	exec {card_in}> "$netns_tmp/card.$1.in"
	await 30 is_ready "$card_log" $card_pid && ! is_gone $card_pid || {
		cat "$card_log"
		die "no card"
	}
}

# cards_good NAMESPACE...: each of these cards served queues of programs, and no program violated a
# rule on any.
cards_good() {
	local bad=0 ns

	for ns; do
		card_log=$netns_tmp/card.$ns.log
		card_in=${cards[$card_log]}
		(($(card_counter received) + $(card_counter sent) > $(card_counter from_kernel))) || {
			echo "the card in $ns served no program"
			bad=1
		}
	done
	! grep -H '^violation' "${!cards[@]}" && ((!bad))
}

card_answers() {
	in_ns c ping -c 1 -W 1 $netns_server
}

# card_files INTERFACE: the shim, and what libibverbs reads of the device; the node's number is that
# of /dev/null.
card_files() {
	local verbs=$card_sys/class/infiniband_verbs device=$card_sys/class/infiniband/mlx5_0 shim_of

	[[ ! -e $device ]] || return 0
	shim_of=$(find_program tests/mlx5/shim.so) || exit 1
	cp "$shim_of" $netns_tmp/shim.so
	mkdir -p $verbs/uverbs0 "$device/device/net/$1" $device/ports/1
	echo 6 > $verbs/abi_version
	echo mlx5_0 > $verbs/uverbs0/ibdev
	echo 1:3 > $verbs/uverbs0/dev
	echo 1 > $verbs/uverbs0/abi_version
	echo '1: CA' > $device/node_type
	echo 'pci:v000015B3d00001017sv000015B3sd00000007bc02sc00i00' > $device/device/modalias
	echo 0x15b3 > $device/device/vendor
	echo 0x1017 > $device/device/device
	echo '02c5:0000:0000:0002' > $device/node_guid
	card_vars=(SYSFS_PATH=$card_sys CARD_SOCKET=$card_socket)
	card_env=(env "${card_vars[@]}" LD_PRELOAD=$netns_tmp/shim.so)
}

# The card is asked often: what reads its log starts no programs.
#
# card_read: $card_lines, the lines of its log; $card_answers, how many of them are counters, of which $card_last is the
# last one.
card_read() {
	local line

	mapfile card_lines < "$card_log"
	card_answers=0
	for line in "${card_lines[@]}"; do
		[[ $line == sent*$'\n' ]] || continue
		card_answers=$((card_answers + 1))
		card_last=${line%$'\n'}
	done
}

# card_counters: all of struct card_counters, as NAME VALUE... in one line.
card_counters() {
	card_fault ""
	echo "$card_last"
}

# card_counter NAME: one of them.
card_counter() {
	local now

	card_fault ""
	now=" $card_last "
	now=${now#* "$1" }
	echo "${now%% *}"
}

# card_rules: a line for each rule of the card.
card_rules() {
	local line lines

	card_read
	lines=${#card_lines[@]}
	card_fault rules
	for line in "${card_lines[@]:lines}"; do
		[[ $line != rule* ]] || printf %s "$line"
	done
}

# card_fault fail|report|remove|return|hold|go|stop|start|refuse|admit|rules: see card.c.
card_fault() {
	local before

	card_read
	before=$card_answers
	echo "$1" >&"$card_in"
	await 30 card_has_printed $before || die "the card does not answer"
}

card_has_printed() {
	card_read
	((card_answers > $1))
}

# card_violated WORDS: has it printed such a violation?
card_violated() {
	grep -q "^violation: .*$1" $card_log
}
