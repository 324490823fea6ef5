/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics of poll, select and epoll_wait: one struct iomux for each call.
 *
 * Role		app, the thread in the call.
 */
#ifndef SOCK_WAIT_IOMUX_H
#define SOCK_WAIT_IOMUX_H

#include "base/clock.h"
#include "base/param.h"
#include "base/stats/stats.h"

struct iomux {
	nsec_t start; /* when it began */
	nsec_t sleep; /* with VMA_CPU_USAGE_STATS: how long it slept; minus the start of a sleep */
	int os;	      /* descriptors of the kernel that it returns */
	bool slept;
	bool unusual; /* one of the others is not 0, or VMA_CPU_USAGE_STATS is set */
};

static inline void iomux_begin(struct iomux *m, nsec_t now)
{
	*m = (struct iomux){.start = now, .unusual = params.cpu_usage_stats};
}

static inline void iomux_sleeps(struct iomux *m)
{
	m->slept = true;
	m->unusual = true;
	if (params.cpu_usage_stats)
		m->sleep -= clock_now();
}

static inline void iomux_wakes(struct iomux *m)
{
	if (params.cpu_usage_stats)
		m->sleep += clock_now();
}

/*
 * Adds the call to counts.  rc: its result.  alone: no other thread adds to these counts now
 * (the set's mutex, or there is only one thread).
 */
void iomux_count(const struct iomux *m, int rc, struct stats_iomux_counts *counts, bool alone);

#endif
