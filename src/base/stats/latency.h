/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Histograms of latencies, log-linear: eight buckets for each power of two, so that a bucket is
 * at most an eighth wider than where it begins.
 *
 * Role		pure.  One thread counts at a time; a reader in another process may see a latency
 *		in a bucket and not yet in the sum.
 */
#ifndef BASE_STATS_LATENCY_H
#define BASE_STATS_LATENCY_H

#include <stdint.h>

#define LATENCY_STEPS 8u /* buckets of a power of two */
#define LATENCY_FIRST 8u /* below 2^8 nsec the buckets have 32 nsec each */
#define LATENCY_LAST 36u /* the last power of two; what is longer than two minutes counts there */
#define LATENCY_BUCKETS (LATENCY_STEPS * (LATENCY_LAST - LATENCY_FIRST + 2u))

struct stats_latency {
	uint64_t count, sum; /* nsec */
	uint64_t most;
	uint64_t unused[5];
	uint64_t buckets[LATENCY_BUCKETS];
} __attribute__((aligned(64)));

/* The bucket of a latency. */
static inline unsigned latency_bucket(uint64_t nsec)
{
	unsigned power;

	if (nsec < 1u << LATENCY_FIRST)
		return (unsigned)(nsec >> (LATENCY_FIRST - 3));
	power = 63u - (unsigned)__builtin_clzll(nsec);
	if (power > LATENCY_LAST)
		return LATENCY_BUCKETS - 1;
	return (power - LATENCY_FIRST + 1) * LATENCY_STEPS + (unsigned)(nsec >> (power - 3) & 7);
}

/* Where the bucket ends: all its latencies are below, but for the last bucket. */
uint64_t latency_end(unsigned bucket);

/* Counts a latency. */
void latency_add(struct stats_latency *latency, uint64_t nsec);

/*
 * The latency that so many of 100,000 do not exceed, nsec: 50000 is the median.  The end of its
 * bucket, at most `most`; 0: none was counted.
 */
uint64_t latency_percentile(const struct stats_latency *latency, uint32_t of_100000);

#endif
