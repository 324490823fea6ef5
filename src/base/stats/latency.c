/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/stats/latency.h"

uint64_t latency_end(unsigned bucket)
{
	unsigned power = bucket / LATENCY_STEPS, step = bucket % LATENCY_STEPS + 1;

	if (!power)
		return (uint64_t)step << (LATENCY_FIRST - 3);
	power += LATENCY_FIRST - 1;
	return (1ull << power) + ((uint64_t)step << (power - 3));
}

static void set(uint64_t *value, uint64_t to)
{
	__atomic_store_n(value, to, __ATOMIC_RELAXED);
}

void latency_add(struct stats_latency *latency, uint64_t nsec)
{
	uint64_t *bucket = &latency->buckets[latency_bucket(nsec)];

	set(bucket, *bucket + 1);
	set(&latency->sum, latency->sum + nsec);
	set(&latency->count, latency->count + 1);
	if (nsec > latency->most)
		set(&latency->most, nsec);
}

uint64_t latency_percentile(const struct stats_latency *latency, uint32_t of_100000)
{
	uint64_t total = 0, seen = 0, end;

	/* Not count: another process may be counting, or lie. */
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		total += latency->buckets[i];
	if (!total)
		return 0;
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		seen += latency->buckets[i];
		if (!latency->buckets[i] || (double)seen * 100000 < (double)total * of_100000)
			continue;
		end = latency_end(i);
		return end < latency->most || i + 1 == LATENCY_BUCKETS ? end : latency->most;
	}
	return latency->most;
}
