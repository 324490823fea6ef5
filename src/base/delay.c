/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/delay.h"

#ifdef VMA_TEST_DELAYS

#include <ck_pr.h>
#include <stddef.h>
#include <time.h>

#include "base/sys.h"

#define NAP_MAX 200000 /* ns */

static uint64_t seed = 1;
static uint64_t threads;		     /* any, atomic: how many came here */
static void (*hook_fn)(enum delay_point at); /* any, atomic */

static __thread uint64_t state __attribute__((tls_model("initial-exec")));

void delay_seed(uint64_t value)
{
	seed = value;
}

void delay_set_hook(void (*hook)(enum delay_point at))
{
	__atomic_store_n(&hook_fn, hook, __ATOMIC_SEQ_CST);
}

static uint64_t next_random(void)
{
	if (!state)
		state = (seed + 1) * 0x9e3779b97f4a7c15ull +
			__atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED) * 0xd1342543de82ef95ull;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 16;
}

static void nap(long nsec)
{
	struct timespec ts = {0, nsec};

	sys_call(SYS_nanosleep, &ts, NULL, 0, 0, 0, 0);
}

static void spin(uint64_t n)
{
	while (n--)
		ck_pr_stall();
}

/* Mostly nothing, seldom long: a step is slow here, and fast there. */
void delay_at(enum delay_point at)
{
	void (*hook)(enum delay_point) = __atomic_load_n(&hook_fn, __ATOMIC_ACQUIRE);
	uint64_t rnd, what;

	if (hook) {
		hook(at);
		return;
	}
	rnd = next_random();
	what = rnd % 2048;
	rnd /= 2048;
	if (what < 4)
		nap((long)(rnd % NAP_MAX));
	else if (what < 64)
		sys_sched_yield();
	else if (what < 96)
		spin(rnd % 2000);
	else if (what < 512)
		spin(rnd % 64);
}

#endif
