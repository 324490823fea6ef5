# memcached with four threads, and 16 connections that stay.
sides=(server client both)
needs memcached memcaslap

# Its memory is full from the start: who answers more requests would fill it sooner.
set_up() {
	serve memcached 11211 memcached -u root -l $netns_server -p 11211 -U 0 -t 4 &&
		netns_run "c$pair" "" bash -c "awk '
			BEGIN {
				for (i = 0; i < 70000; i++)
					printf \"set fill%d 0 0 1024 noreply\\r\\n%1024s\\r\\n\", i, \"\"
			}' > /dev/tcp/$netns_server/11211"
}

load() {
	drive ask "$1" memcaslap -s $netns_server:11211 -T 1 -c 16 -t "$(whole "$1")s"
	# It reports no percentiles.
	awk '
		/^get_misses: / { misses = $2 }
		/Ops: / { sub(/.*Ops: /, ""); ops = $1 }
		END { printf "requests=%d errors_ask_misses=%d\n", ops, misses }' "$work/ask.out" >> "$work/results"
}
