# Sourced by the budgets of instructions, after tools/lib/netns.sh: how much a count may differ from
# its budget, and what to do then.

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
