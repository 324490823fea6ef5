/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/delay.h"

#ifdef VMA_TEST_DELAYS

#include <ck_pr.h>
#include <stddef.h>
#include <time.h>

#include "base/sys.h"

#define NAP_MAX 200000 /* ns */

static uint64_t seed = 1;
static uint64_t threads;		     /* any, atomic: number of threads so far */
static void (*hook_fn)(enum delay_point at); /* any, atomic */

static __thread uint64_t random_state __attribute__((tls_model("initial-exec")));

void delay_seed(uint64_t value)
{
	seed = value;
}

void delay_set_hook(void (*hook)(enum delay_point at))
{
	/* Pairs with delay_at(): the hook sees what the test wrote before. */
	__atomic_store_n(&hook_fn, hook, __ATOMIC_SEQ_CST);
}

static uint64_t next_random(void)
{
	if (!random_state)
		random_state =
			(seed + 1) * 0x9e3779b97f4a7c15ull +
			__atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED) * 0xd1342543de82ef95ull;
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> 16;
}

static void spin(uint64_t n)
{
	while (n--)
		ck_pr_stall();
}

/* Usually does nothing, and seldom waits for long, so that threads run at varying speeds. */
void delay_at(enum delay_point at)
{
	/* Pairs with delay_set_hook(). */
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
		sys_sleep((int64_t)(rnd % NAP_MAX));
	else if (what < 64)
		sys_sched_yield();
	else if (what < 96)
		spin(rnd % 2000);
	else if (what < 512)
		spin(rnd % 64);
}

#endif
