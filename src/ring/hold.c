/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/hold.h"

#include <linux/membarrier.h>

#include "base/sys.h"

void hold_init(struct hold *hold)
{
	ck_spinlock_fas_init(&hold->spin);
	hold->inside = 0;
	hold->wanted = 0;
	pthread_mutex_init(&hold->mutex, NULL);
}

bool hold_single_supported(void)
{
	return sys_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
	       sys_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

/* The internal thread is in, or about to look: step back until it is gone. */
void hold_wait_wanted(struct hold *hold)
{
	do {
		__atomic_store_n(&hold->inside, 0, __ATOMIC_RELEASE);
		for (int spins = 0; __atomic_load_n(&hold->wanted, __ATOMIC_ACQUIRE); spins++) {
			if (spins > 200)
				sys_sched_yield();
			else
				ck_pr_stall();
		}
		__atomic_store_n(&hold->inside, 1, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	} while (__atomic_load_n(&hold->wanted, __ATOMIC_ACQUIRE));
}

void hold_lock_slow(ck_spinlock_fas_t *spin, int spins)
{
	do {
		for (int n = 0; ck_spinlock_fas_locked(spin); n++) {
			if (n > spins)
				sys_sched_yield();
			else
				ck_pr_stall();
		}
	} while (!ck_spinlock_fas_trylock(spin));
}

/*
 * After the barrier every store the application had made is visible here, and
 * every later acquire of it sees ->wanted: one of the two notices the other.
 */
bool hold_try_single(struct hold *hold)
{
	__atomic_store_n(&hold->wanted, 1, __ATOMIC_RELAXED);
	sys_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	delay_at(DELAY_HOLD_WANTED);
	/* acquire: pairs with hold_release() */
	if (!__atomic_load_n(&hold->inside, __ATOMIC_ACQUIRE))
		return true;
	__atomic_store_n(&hold->wanted, 0, __ATOMIC_RELEASE);
	return false;
}
