# Sourced by the budgets of instructions, after tools/lib/netns.sh: how much a count may differ from
# its budget, and what to do then; and a peer whose answers look alike, however busy the machine is.  The clock
# is that of most machines.

netns_take_counter

more=3 # per cent above the budget are allowed
less=3 # per cent below it require a new budget
cheaper=0
dearer=0

# is_within COUNT BUDGET: both empty if unknown. Sets $cheaper or $dearer.
is_within() {
	[[ -n $1 && -n $2 ]] || return 1
	(($1 * 100 >= $2 * (100 - less))) || cheaper=1
	(($1 * 100 <= $2 * (100 + more))) || {
		dearer=1
		return 1
	}
}

# is_of_clang PROGRAM: the budgets are gcc's.
is_of_clang() {
	grep -q 'clang version' "$1"
}

# say_changes FILE: the last words of a test, before its verdict.
say_changes() {
	((!dearer)) || cat << END
More than $more % above $1.  If the price is meant to be paid, put the
figures there, and say in the commit what they buy.
END
	((!cheaper)) || cat << END
More than $less % below $1: put the figures there, to keep what was won.
END
}

# without_bare_acks NAMESPACE: what leaves it by v0 has no acknowledgement in a segment of its own. A
# kernel sends one when its program is late with the answer, which acknowledges as well: a call that
# found both would cost twice as much, or not, as processors are free.
without_bare_acks() {
	local code=(
		"40 0 0 12" "21 0 12 2048"        # Ethernet: IPv4
		"48 0 0 23" "21 0 10 6"           # IP: TCP
		"48 0 0 47" "21 0 8 16"           # TCP: ACK is the only flag
		"48 0 0 46" "116 0 0 4" "100 0 0 2" "4 0 0 20" "7 0 0 0" # both headers ...
		"40 0 0 16" "29 0 1 0"            # ... are the whole packet
		"6 0 0 2" "6 0 0 4294967295"      # TC_ACT_SHOT; otherwise TC_ACT_UNSPEC
	)

	needs tc
	tc -n $1 qdisc add dev v0 clsact &&
		tc -n $1 filter add dev v0 egress bpf direct-action \
			bytecode "${#code[@]},$(IFS=, && echo "${code[*]}")" || die "no filter"
}
