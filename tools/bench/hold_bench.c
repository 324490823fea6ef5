/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of holding a ring: ring_hold() and ring_release(), with an empty inbox and no work
 * in between.
 *
 *	hold_bench CPU,CPU MODE		MODE is a thread mode, 0 to 3
 *	steps hold_bench CPU,CPU count	instructions of each mode
 *
 * Prints the ns of one hold, for one thread alone (of its processor time) and for two that
 * always want the same ring (from hold to hold, by either).  In mode 0 the second one is the
 * internal thread, which wants the ring every 100 us: a hundred times as often as usual.
 */
#include <string.h>

#include "base/mem.h"
#include "ring/ring.h"
#include "tools/bench/crew.h"
#include "tools/bench/steps.h"

#define SLICES 15
#define BATCH 256
#define COUNTED 9

static struct ring *ring;

#define HOLD(name, mode)                                        \
	static __attribute__((noinline)) void pass_##name(void) \
	{                                                       \
		if (!ring_hold(ring, mode))                     \
			abort();                                \
		ring_release(ring, mode);                       \
	}
HOLD(single, HOLD_SINGLE)
HOLD(spin, HOLD_SPIN)
HOLD(mutex, HOLD_MUTEX)
HOLD(yield, HOLD_YIELD)

static const struct {
	const char *name;
	void (*hold)(void);
} modes[HOLD_MODES] = {
	[HOLD_SINGLE] = {"hold_single", pass_single},
	[HOLD_SPIN] = {"hold_spin", pass_spin},
	[HOLD_MUTEX] = {"hold_mutex", pass_mutex},
	[HOLD_YIELD] = {"hold_yield", pass_yield},
};

/* A visit of the internal thread; its duration is not measured. */
static unsigned visit(void)
{
	nsec_t next = clock_now() + 100 * NSEC_PER_USEC;

	ring_thread.internal = true;
	if (ring_try(ring))
		ring_release_cold(ring);
	while (clock_now() < next)
		ck_pr_stall();
	return 0;
}

static unsigned work(struct worker *worker)
{
	if (ring_mode == HOLD_SINGLE && worker->number)
		return visit();
	for (unsigned i = 0; i < BATCH; i++)
		modes[ring_mode].hold();
	return BATCH;
}

static void measure(const int cpus[2])
{
	struct crew crew = {.size = 2, .work = work};
	double alone[SLICES], two[SLICES];

	crew_start(&crew, cpus, true);
	for (unsigned i = 0; i < SLICES; i++) {
		crew_slice(&crew, 1);
		alone[i] = crew_cost(&crew);
		crew_slice(&crew, 2);
		two[i] = 1 / crew_rate(&crew, 2);
	}
	crew_end(&crew);
	printf("alone=%.2f two=%.2f\n", crew_median(alone, SLICES), crew_median(two, SLICES));
}

/* With a single thread, the mutex of libc would be cheaper than in real programs. */
static void *sleeper(void *arg)
{
	pthread_barrier_wait(arg);
	pthread_barrier_wait(arg);
	return NULL;
}

static void count(void)
{
	pthread_barrier_t barrier;
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, sleeper, &barrier);
	pthread_barrier_wait(&barrier);
	for (int m = 0; m < HOLD_MODES; m++) {
		ring_mode = (enum hold_mode)m;
		for (int i = 0; i < COUNTED; i++) {
			modes[m].hold();
			steps_count((const void *)(uintptr_t)modes[m].hold, modes[m].name);
			modes[m].hold();
		}
	}
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	int cpus[2];

	if (argc != 3)
		return 2;
	crew_parse_cpus(argv[1], cpus);
	clock_init();
	ring = mem_aligned(64, sizeof(*ring));
	if (!ring || !hold_single_supported())
		return 1;
	ring_init(ring, NULL, 0);
	if (!strcmp(argv[2], "count")) {
		count();
		return 0;
	}
	ring_mode = (enum hold_mode)(atoi(argv[2]) % HOLD_MODES);
	measure(cpus);
	return 0;
}
