/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that are measured together: pinned, and going at the same time, slice
 * by slice.  In a slice the first so many of the crew work while the others sleep,
 * so that what one thread does alone and in company is compared within a tenth of
 * a second: the machine changes more than that between two runs.
 *
 * Role		the program's first thread makes a crew and calls crew_slice();
 *		each worker runs work() over and over, until the slice ends.
 */
#ifndef TOOLS_BENCH_CREW_H
#define TOOLS_BENCH_CREW_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "tools/bench/place.h"

#define CREW_MAX 16
#define CREW_SLICE (10 * NSEC_PER_MSEC)
#define CREW_SETTLE (500 * NSEC_PER_USEC) /* all are awake by then */

struct crew;

struct worker {
	struct crew *crew;
	unsigned number;
	int cpu;
	pthread_t thread;
	/* of the last slice */
	uint64_t ops;
	nsec_t wall, cpu_time;
};

struct crew {
	/* set before crew_start() */
	unsigned size;
	unsigned (*work)(struct worker *worker); /* returns how many operations it did */
	/* first thread, between two slices */
	unsigned going; /* workers that work in the next slice; 0: all go home */
	nsec_t begin;
	pthread_barrier_t gate;
	struct worker workers[CREW_MAX];
};

static inline nsec_t crew_cpu_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static inline void crew_work(struct worker *worker)
{
	nsec_t begin = worker->crew->begin, cpu;

	while (clock_now() < begin)
		sched_yield();
	cpu = crew_cpu_time();
	worker->ops = 0;
	do {
		worker->ops += worker->crew->work(worker);
		worker->wall = clock_now() - begin; /* who came late did less */
	} while (worker->wall < CREW_SLICE);
	worker->cpu_time = crew_cpu_time() - cpu;
}

static inline void *crew_main(void *arg)
{
	struct worker *worker = arg;

	place_pin(worker->cpu);
	for (;;) {
		pthread_barrier_wait(&worker->crew->gate);
		if (!worker->crew->going)
			return NULL;
		if (worker->number < worker->crew->going)
			crew_work(worker);
		pthread_barrier_wait(&worker->crew->gate);
	}
}

/* The first worker has cpus[0] for itself, unless own is false; the others share cpus[1]. */
static inline void crew_start(struct crew *crew, const int cpus[2], bool own)
{
	pthread_barrier_init(&crew->gate, NULL, crew->size + 1);
	for (unsigned i = 0; i < crew->size; i++) {
		struct worker *worker = &crew->workers[i];

		worker->crew = crew;
		worker->number = i;
		worker->cpu = cpus[own ? i > 0 : i % 2];
		if (pthread_create(&worker->thread, NULL, crew_main, worker)) {
			perror("thread");
			exit(1);
		}
	}
}

/* Returns when the slice is over, and the first so many workers have their figures. */
static inline void crew_slice(struct crew *crew, unsigned going)
{
	crew->going = going;
	crew->begin = clock_now() + CREW_SETTLE;
	pthread_barrier_wait(&crew->gate);
	pthread_barrier_wait(&crew->gate);
}

static inline void crew_end(struct crew *crew)
{
	crew->going = 0;
	pthread_barrier_wait(&crew->gate);
	for (unsigned i = 0; i < crew->size; i++)
		pthread_join(crew->workers[i].thread, NULL);
}

/* Operations a nanosecond of the last slice, of this many workers together. */
static inline double crew_rate(const struct crew *crew, unsigned going)
{
	double rate = 0;

	for (unsigned i = 0; i < going; i++)
		rate += (double)crew->workers[i].ops / (double)crew->workers[i].wall;
	return rate;
}

/* What one of the first worker's cost it in ns of its processor's time. */
static inline double crew_cost(const struct crew *crew)
{
	return (double)crew->workers[0].cpu_time / (double)crew->workers[0].ops;
}

static inline int crew_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static inline double crew_median(double *values, unsigned n)
{
	qsort(values, n, sizeof(*values), crew_compare);
	return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* "A,B"; exits when it is not. */
static inline void crew_parse_cpus(const char *text, int cpus[2])
{
	if (sscanf(text, "%d,%d", &cpus[0], &cpus[1]) != 2) {
		fprintf(stderr, "two processors, as 0,1\n");
		exit(2);
	}
}

#endif
