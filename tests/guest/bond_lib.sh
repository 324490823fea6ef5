# Sourced by tools/lib/netns.sh: bonds named v0 in c<tag> and s<tag>, with the slaves p0 and p1.

# cat_in NAMESPACE FILE: the first line of a file of /sys/class/net there.  /sys shows the network
# namespace that mounted it, so each gets its own, once: in an emulated machine, looks that start
# programs, every 10 ms, would take the processors from what they wait for.
cat_in() {
	local sys=$netns_tmp/sys.$1 line

	[[ -d $sys ]] || { mkdir "$sys" && in_ns "$1" mount -t sysfs none "$sys"; } || return 1
	read -r line < "$sys/class/net/$2" && echo "$line"
} 2> /dev/null

# bond_pair TAG MODE: the slaves are joined one by one; those of active-backup by a switch, the bridge
# b0 of w<tag>, whose ports are cp0, cp1, sp0 and sp1.
bond_pair() {
	local slave side

	modprobe bonding || return 1
	[[ $2 != active-backup ]] || {
		netns_new "w$1"
		ip -n "w$1" link add b0 type bridge forward_delay 0 && ip -n "w$1" link set b0 up || return 1
	}
	for slave in p0 p1; do
		if [[ $2 != active-backup ]]; then
			ip link add $slave netns "c$1" type veth peer name $slave netns "s$1" || return 1
			continue
		fi
		for side in c s; do
			ip link add $slave netns "$side$1" type veth peer name $side$slave netns "w$1" &&
				ip -n "w$1" link set $side$slave master b0 up || return 1
		done
	done
	bond_make "c$1" "$2" && bond_make "s$1" "$2"
}

# bond_make NAMESPACE MODE: of its p0 and p1.
bond_make() {
	local options=(mode "$2" miimon 50) slave

	[[ $2 != 802.3ad ]] || options+=(lacp_rate fast xmit_hash_policy layer3+4)
	ip -n "$1" link add v0 type bond "${options[@]}" || return 1
	for slave in p0 p1; do
		ip -n "$1" link set $slave master v0 && ip -n "$1" link set $slave up || return 1
	done
}

# bond_settle TAG MODE: p0 is active on both sides, or both slaves of both sides are.
bond_settle() {
	local side

	for side in c s; do
		if [[ $2 == active-backup ]]; then
			await 30 bond_activate "$side$1" p0 || return 1
		else
			await 60 bond_is_aggregated "$side$1" 2 || return 1
		fi
	done
}

# bond_activate NAMESPACE SLAVE
bond_activate() {
	ip -n "$1" link set v0 type bond active_slave "$2"
	bond_is_active "$1" "$2"
}

bond_is_active() {
	[[ $(cat_in "$1" v0/bonding/active_slave) == "$2" ]]
}

# bond_is_aggregated NAMESPACE N: this number of slaves sends.
bond_is_aggregated() {
	local slave n=0

	for slave in p0 p1; do
		[[ $(cat_in "$1" $slave/bonding_slave/state) != active ]] || n=$((n + 1))
	done
	((n == $2)) && [[ $(cat_in "$1" v0/bonding/ad_num_ports) == "$2" ]]
}
