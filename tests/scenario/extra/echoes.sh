# Sourced by tests of the extra API after tools/lib/netns.sh: an echo server by the kernel, and programs
# that talk to it.
#
#	c  v0 10.9.0.1, the program ---------- v0 10.9.0.2  s
#	                                       echo, by the kernel

probe=$(netns_find_probe) || exit 1
log=$netns_tmp/log
netns_pair ""
netns_spawn $netns_tmp/serve s "" "$probe" serve udp:7000:recv tcp:7000:recv || die "no server"

# counted PROTO LIB COMMAND...: the program runs; $kernel_in: how many datagrams, or segments, the kernel
# of c received.
counted() {
	local before after rc counter=UdpInDatagrams

	[[ $1 == udp ]] || counter=TcpInSegs
	read -r before < <(netns_counters c $counter)
	netns_run c "${@:2}" > $log 2>&1 < /dev/null
	rc=$?
	read -r after < <(netns_counters c $counter)
	kernel_in=$((after - before))
	((rc == 0)) || tail -30 $log
	return $rc
}

says() {
	grep -qE "$1" $log || { tail -40 $log && false; }
}

# each_way COMMAND: calls COMMAND PROTO WHAT for datagrams and for a connection, asleep or not.
each_way() {
	local plain=("${vma_env[@]}") proto poll

	for proto in udp tcp; do
		for poll in -1 0; do
			vma_env=("${plain[@]}" VMA_RX_POLL=$poll VMA_SELECT_POLL=$poll)
			"$1" $proto "$proto, VMA_RX_POLL=$poll"
		done
	done
	vma_env=("${plain[@]}")
}
