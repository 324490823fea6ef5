/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/iomux.h"

static void add(uint64_t *counter, uint64_t n, bool alone)
{
	if (alone)
		stats_add(counter, n);
	else
		stats_add_any(counter, n);
}

void iomux_count(const struct iomux *m, int rc, struct stats_iomux_counts *counts, bool alone)
{
	if (m->os)
		add(&counts->os_ready, (unsigned)m->os, alone);
	if (rc > m->os)
		add(&counts->our_ready, (unsigned)(rc - m->os), alone);
	add(m->slept ? &counts->misses : &counts->hits, 1, alone);
	if (rc == 0)
		add(&counts->timeouts, 1, alone);
	else if (rc < 0)
		add(&counts->errors, 1, alone);
	if (__builtin_expect(params.cpu_usage_stats, 0))
		add(&counts->polling, (uint64_t)(clock_now() - m->start - m->sleep), alone);
}
