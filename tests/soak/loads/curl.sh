# Short-lived clients: curl, one process after the other.
sides=(server client both)
churns=1
needs nginx curl

set_up() {
	nginx_serve root 8080
}

load() {
	local end now began

	end=$((${EPOCHREALTIME/[.,]/} + $(awk -v s="$1" 'BEGIN { printf "%d", s * 1000000 }')))
	began=${EPOCHREALTIME/[.,]/}
	while ((began < end)); do
		if (netns_exec "c$pair" "$lib_c" 0-1023 curl -sS --max-time 5 -o "$work/curl.got" http://$netns_server:8080/ \
			2>> "$work/curl.log"); then
			now=${EPOCHREALTIME/[.,]/}
			echo $((now - began))
		else
			result errors_exit=1
			now=${EPOCHREALTIME/[.,]/}
		fi
		began=$now
	done | sort -n | awk '
		{ us[NR] = $1 }
		END { printf "requests=%d p99_us=%d max_us=%d\n", NR, us[int(NR * 0.99) + (NR < 2)], us[NR] }' >> "$work/results"
}
