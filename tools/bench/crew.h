/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that are measured together: pinned, and running at the same time, in slices.
 * In a slice the first threads of the crew run while the others sleep.  So one thread alone
 * and several threads are compared within a tenth of a second; between two runs the machine
 * changes more than that.
 *
 * Role		the program's first thread creates a crew and calls crew_slice();
 *		each worker repeats work() until the slice ends.
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
#define CREW_SETTLE (500 * NSEC_PER_USEC) /* by then all threads have woken up */

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
	unsigned (*work)(struct worker *worker); /* returns the number of operations */
	/* first thread, between two slices */
	unsigned going; /* workers that run in the next slice; 0: all end */
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
		worker->wall = clock_now() - begin; /* a worker that began late did less */
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

/* The first worker has cpus[0] alone, unless own is false; the others share cpus[1]. */
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

/* Runs a slice of the first workers; returns when it is over and the results are complete. */
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

/* Operations per nanosecond in the last slice, of all its workers together. */
static inline double crew_rate(const struct crew *crew, unsigned going)
{
	double rate = 0;

	for (unsigned i = 0; i < going; i++)
		rate += (double)crew->workers[i].ops / (double)crew->workers[i].wall;
	return rate;
}

/* Cost of an operation of the first worker, in ns of its processor time. */
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

/* Parses "A,B"; exits if it is wrong. */
static inline void crew_parse_cpus(const char *text, int cpus[2])
{
	if (sscanf(text, "%d,%d", &cpus[0], &cpus[1]) != 2) {
		fprintf(stderr, "two processors, as 0,1\n");
		exit(2);
	}
}

#endif
