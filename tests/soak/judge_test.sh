#!/bin/bash
# The judge of tools/soak: records of runs, good and bad, and what it has to complain of where one
# thing is made wrong in a good one.
#
#	LOAD-SIDE	as they were recorded (SOAK_RECORD of soak.sh), --quick
#	long, short	written for this test, without the noise of the others: keepalive server,
#			ten minutes; close server, 20 seconds
cd "$(dirname "$(realpath -s "$0")")" || exit 2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0

# given RECORD [EDIT...]: creates $tmp/record. An edit is LINE,PAIR,KEY=VALUE, where LINE is a
# number or a range such as 3-5; a VALUE of *F multiplies the old value, +K adds K times the line's
# number. Or it is add:TEXT, which adds a line, or without:REGEX, which removes lines.
given() {
	cp "records/$1.record" "$tmp/record"
	for edit in "${@:2}"; do
		case $edit in
		add:*) echo "${edit#add:}" >> "$tmp/record" ;;
		without:*) sed -i "/${edit#without:}/d" "$tmp/record" ;;
		*) change "$edit" ;;
		esac
	done
}

change() {
	local lines pair key value

	IFS=,= read -r lines pair key value <<< "$1"
	awk -v lines="$lines" -v pair="$pair" -v key="$key" -v value="$value" '
		function changed(old, n) {
			if (value ~ /^[*]/)
				return int(old * substr(value, 2))
			if (value ~ /^[+]/)
				return int(old + n * substr(value, 2))
			return value
		}
		BEGIN { split(lines, range, "-"); last = range[2] ? range[2] : range[1] }
		$1 ~ /^line=/ && $2 == "pair=" pair {
			n = substr($1, 6)
			if (n + 0 >= range[1] + 0 && n + 0 <= last + 0) {
				found = 0
				for (i = 3; i <= NF; i++) {
					split($i, kv, "=")
					if (kv[1] == key) {
						$i = key "=" changed(kv[2], n)
						found = 1
					}
				}
				if (!found)
					$0 = $0 " " key "=" value
			}
		}
		{ print }' "$tmp/record" > "$tmp/new"
	mv "$tmp/new" "$tmp/record"
}

say() {
	echo "$1 $2"
	[[ $1 == ok ]] && return
	failures=$((failures + 1))
	cat "$tmp/said"
}

# good WHAT RECORD [EDIT...]
good() {
	given "${@:2}"
	if python3 judge.py "$tmp/record" > "$tmp/said" 2>&1 && grep -q '^ok' "$tmp/said"; then
		say ok "$1"
	else
		say FAIL "$1: there is nothing to complain of"
	fi
}

# bad COMPLAINT RECORD [EDIT...]: exactly this complaint.
bad() {
	given "${@:2}"
	if ! python3 judge.py "$tmp/record" > "$tmp/said" 2>&1 && grep -q "^FAIL .*$1" "$tmp/said" &&
		! grep -v "$1" "$tmp/said"; then
		say ok "$1"
	else
		say FAIL "$1: that and nothing else is to be complained of: ${*:2}"
	fi
}

good "a long run" long
good "a short run" short

# as recorded
good "connections for each request, 2.5 s a line" postgresql-server
good "messages by the hundred thousand" zeromq-both
good "frames go up and down" socat-server
bad 'the rate is at most 0.0' close-client
bad '1763 errors (ask_connect), the kernel has 28' kill-server

# rates
bad 'line 10: the rate is 0\.' long '10,ours,requests=*0.85'
bad 'line 2: the rate is 0\.' long '2,ours,requests=*0.85'
good "both fall" long '5-10,ours,requests=*0.85' '5-10,kernel,requests=*0.8'
bad 'line [5-9]\|line 10: the rate is 0.5' long '5-10,ours,requests=*0.5' '5-10,kernel,requests=*0.7'
good "a twentieth less" long '5-10,ours,requests=*0.95'
bad 'the rate is at most 0\.4' short '3-4,ours,requests=*0.4'
bad 'the rate is at most 0\.3' short '3-4,ours,requests=*0.3' '3-4,kernel,requests=*0.7'
good "a processor is away for a line" short '3,ours,requests=*0.01'
good "a short run on a busy machine" short '3-4,ours,requests=*0.7'
good "the rate rises" short '2-4,ours,requests=*1.5'
bad 'line 1: no request was answered' long '1,ours,requests=0'
bad 'line 4: ' long '4,ours,requests=0'

# errors
bad '1 errors (read), the kernel has 0' long '7,ours,errors_read=1'
bad '21 errors (connect), the kernel has 10' long '7,ours,errors_connect=21' '3,kernel,errors_connect=10'
bad '5 errors (timeout), the kernel has 0' long '3,ours,errors_timeout=5' '3,kernel,errors_read=10'
good "errors on both sides" long '7,ours,errors_read=12' '3,kernel,errors_read=10'
good "errors of the kernel" long '3,kernel,errors_read=10'
good "a few errors in a short run" short '3,ours,errors_timeout=5'
bad '6 errors (timeout), the kernel has 0' short '3,ours,errors_timeout=6'
bad '3 errors (idle), the kernel has 0' long 'add:finish pair=ours errors_idle=3'

# closing first
bad 'of 1.* % of the connections the client waits' short '4,ours,tw_c=2000'
good "so few, in a short run" short '4,ours,tw_c=1000'
bad 'of 0.[3-9]. % of the connections the client waits' long '10,ours,tw_c=9000' \
	'add:load close side server seconds 600 lines 10 churns 1'
good "so does the kernel" short '4,ours,tw_c=2000' '4,kernel,tw_c=1000'

# growth
bad 'memory_kb grows' long '1-10,ours,memory_kb=+1000'
good "memory grows at first" long '1-3,ours,memory_kb=*0.5'
good "memory of the kernel's programs" long '1-10,kernel,memory_kb=+10000'
good "the program itself grows" long '1-10,ours,memory_kb=+1000' '1-10,kernel,memory_kb=+950'
bad 'memory_kb grows' long '1-10,ours,memory_kb=+1000' '1-10,kernel,memory_kb=+200'
bad 'fds grows' long '1-10,ours,fds=+4'
good "descriptors keep ports" long '1-10,ours,fds=+100' '1-10,ours,entries=+100'
good "fewer entries, as many descriptors" long '1-10,ours,entries=450' '7-10,ours,entries=200'
good "fewer, and fewer, entries" long '1-10,ours,entries=5000' '1-10,ours,entries=+-400'
bad 'fds grows' long '1-10,ours,fds=+100' '1-10,ours,entries=+50'
good "memory goes up and down" long '2,ours,memory_kb=*1.5' '10,ours,memory_kb=*1.5'
bad 'frames grows' long '1-10,ours,frames=+100'
bad 'frames grows' long '1-10,ours,frames=+15'
bad 'frames grows' short '1-4,ours,frames=+50'
bad 'rings grows' long '1-10,ours,rings=+1'
bad 'rings grows' zeromq-both '1-4,ours,rings=+9'
good "clients that have just ended" zeromq-both '4,ours,rings=6'
bad 'entries grows' long '1-10,ours,entries=+500'
good "TIME_WAITs of the first minute" short '1-4,ours,entries=+5000' '1-4,ours,fds=+1000'

# ways
bad 'line 6: the kernel handled' long '6,ours,by_kernel=20000000'
bad 'warned ' long 'add:warned 3 VMA WARNING: * v0 is not accelerated'

# what is left
for what in 'process sours 123 nginx' 'xdp sours' 'socket sours @vma-0' 'file /dev/shm/vma' 'map 12' 'program 3'; do
	bad "left $what" long "add:left $what"
done

# no record
bad 'not complete' long 'without:^line=10 pair=ours'
bad 'not complete' long 'without:^line=10 pair=kernel'
bad 'not complete' long without:.
bad 'not complete' long '3,ours,ms=-100'

((failures == 0))
