-- For wrk: what it measured, as a line of tests/soak.
done = function(summary, latency, requests)
	local e = summary.errors
	io.write(string.format("result requests=%d p99_us=%d max_us=%d errors_connect=%d errors_read=%d" ..
		" errors_write=%d errors_timeout=%d errors_status=%d\n", summary.requests,
		latency:percentile(99), latency.max, e.connect, e.read, e.write, e.timeout, e.status))
end
