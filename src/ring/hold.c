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
	/* Pairs with hold_try_single(), which relies on it. */
	return sys_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
	       sys_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

/* The internal thread holds the ring or is about to look at ->inside: clear that and wait. */
void hold_wait_wanted(struct hold *hold)
{
	do {
		/* release: pairs with the load of ->inside in hold_try_single() */
		__atomic_store_n(&hold->inside, 0, __ATOMIC_RELEASE);
		/* acquire: pairs with hold_release_other() and hold_try_single() */
		for (int spins = 0; __atomic_load_n(&hold->wanted, __ATOMIC_ACQUIRE); spins++) {
			if (spins > 200)
				sys_sched_yield();
			else
				ck_pr_stall();
		}
		/* The fence pairs with membarrier(2) in hold_try_single(), as in hold_acquire(). */
		__atomic_store_n(&hold->inside, 1, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		/* acquire: pairs with hold_release_other() and hold_try_single() */
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
 * After membarrier(2) this thread sees every store that the program's thread has made, and
 * every later hold_acquire() sees ->wanted: at least one of the two notices the other.
 */
bool hold_try_single(struct hold *hold)
{
	__atomic_store_n(&hold->wanted, 1, __ATOMIC_RELAXED);
	/* Pairs with the plain store and load of hold_acquire(). */
	sys_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	delay_at(DELAY_HOLD_WANTED);
	/* acquire: pairs with the stores of 0 in hold_release() and hold_wait_wanted() */
	if (!__atomic_load_n(&hold->inside, __ATOMIC_ACQUIRE))
		return true;
	/* release: pairs with the loads of ->wanted in hold_acquire() and hold_wait_wanted() */
	__atomic_store_n(&hold->wanted, 0, __ATOMIC_RELEASE);
	return false;
}
