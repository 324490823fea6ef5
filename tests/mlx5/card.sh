# Sourced by tests, after tools/lib/netns.sh: an emulated ConnectX card (card.h) in a namespace.
#
#	c  v0 10.9.0.1 ------- wire  s  card --- tap mlx0 10.9.0.2
#
# Programs in s that run with "${card_env[@]}" find mlx5_0, whose interface is mlx0.

card_mac=02:c5:00:00:00:02
card_socket=$netns_tmp/card.sock
card_sys=$netns_tmp/sys
card_log=$netns_tmp/card.log

# card_start: joins c and s, and starts the card.
card_start() {
	local card shim_of

	card=$(find_program tests/mlx5/card) || exit 1
	shim_of=$(find_program tests/mlx5/shim.so) || exit 1
	cp "$shim_of" $netns_tmp/shim.so
	netns_new c
	netns_new s
	ip link add v0 netns c type veth peer name wire netns s || die "no veth"
	# A cable carries whole frames, with their checksums.
	in_ns c ethtool -K v0 tx off tso off gso off gro off > /dev/null || die "ethtool"
	ip -n s link set wire up
	netns_up c v0 $netns_client
	card_describe
	mkfifo $netns_tmp/card.in
	: > $card_log
	in_ns s "$card" $card_socket wire mlx0 $card_mac < $netns_tmp/card.in > $card_log 2>&1 &
	card_pid=$!
	exec {card_in}> $netns_tmp/card.in
	await 10 is_ready $card_log $card_pid && ! is_gone $card_pid || {
		cat $card_log
		die "no card"
	}
	netns_up s mlx0 $netns_server
	await 5 card_answers || die "the cable carries nothing"
}

card_answers() {
	in_ns c ping -c 1 -W 1 $netns_server
}

# What libibverbs reads of the device; the node's number is that of /dev/null.
card_describe() {
	local verbs=$card_sys/class/infiniband_verbs device=$card_sys/class/infiniband/mlx5_0

	mkdir -p $verbs/uverbs0 $device/device/net/mlx0 $device/ports/1
	echo 6 > $verbs/abi_version
	echo mlx5_0 > $verbs/uverbs0/ibdev
	echo 1:3 > $verbs/uverbs0/dev
	echo 1 > $verbs/uverbs0/abi_version
	echo '1: CA' > $device/node_type
	echo 'pci:v000015B3d00001017sv000015B3sd00000007bc02sc00i00' > $device/device/modalias
	echo 0x15b3 > $device/device/vendor
	echo 0x1017 > $device/device/device
	echo '02c5:0000:0000:0002' > $device/node_guid
	card_env=(env SYSFS_PATH=$card_sys CARD_SOCKET=$card_socket LD_PRELOAD=$netns_tmp/shim.so)
}

# card_counter NAME: sent, received, to_kernel, from_kernel, no_buffer or violations.
card_counter() {
	local lines now

	lines=$(grep -c '^sent' $card_log)
	echo >&"$card_in"
	await 5 card_has_printed "$lines" || die "the card does not answer"
	now=" $(grep '^sent' $card_log | tail -n 1) "
	now=${now#* "$1" }
	echo "${now%% *}"
}

card_has_printed() {
	(($(grep -c '^sent' $card_log) > $1))
}

# card_violated WORDS: has it printed such a violation?
card_violated() {
	grep -q "^violation: .*$1" $card_log
}
