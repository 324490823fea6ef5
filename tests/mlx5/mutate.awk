# Applies mutants.txt to sources: awk -v out=DIRECTORY -f mutate.awk mutants.txt SOURCE...
# Fails if a text is not there, or not once.

FNR == 1 {
	file = FILENAME
	sub(/.*\//, "", file)
	is_list = NR == FNR
}

!is_list {
	text[file] = text[file] $0 "\n"
	next
}

/^#/ || !NF {
	next
}

/^= / {
	n++
	name[n] = $2
	next
}

/^@ / {
	of[n] = $2
	next
}

/^- / {
	old[n] = substr($0, 3)
	next
}

/^\+ / {
	new[n] = new[n] (new[n] == "" ? "" : "\n") substr($0, 3)
	next
}

{
	wrong("line " FNR ": what is this?")
}

function wrong(what) {
	print "mutants.txt: " what > "/dev/stderr"
	failed = 1
	exit 1
}

function replace(i,	s, at, rest) {
	s = text[of[i]]
	at = index(s, old[i])
	if (!at)
		wrong(name[i] ": " of[i] " does not have: " old[i])
	rest = substr(s, at + length(old[i]))
	if (index(rest, old[i]))
		wrong(name[i] ": " of[i] " has more than once: " old[i])
	text[of[i]] = substr(s, 1, at - 1) new[i] rest
}

END {
	if (failed)
		exit 1
	for (i = 1; i <= n; i++)
		replace(i)
	for (f in text)
		printf "%s", text[f] > (out "/" f)
}
