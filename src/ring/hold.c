/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/hold.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>

#include "base/log.h"
#include "base/image/sections.h"
#include "base/sys.h"
#include "ring/progress.h"
#include "ring/ring.h"

/* hold_single.wanted: all rings, for good. */
#define HOLD_LEFT ((struct hold *)(void *)&hold_single)

enum hold_mode ring_mode EARLY_DATA = HOLD_SPIN;
struct hold_single hold_single EARLY_DATA = {.lock = CK_SPINLOCK_FAS_INITIALIZER};
__thread bool hold_owner __attribute__((tls_model("initial-exec")));

EARLY_CODE void hold_init(struct hold *hold)
{
	ck_spinlock_fas_init(&hold->spin);
	pthread_mutex_init(&hold->mutex, NULL);
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

static void lock_spin(ck_spinlock_fas_t *spin)
{
	if (!ck_spinlock_fas_trylock(spin))
		hold_lock_slow(spin, HOLD_SPINS_SHARED);
}

static void stall(int *spins)
{
	if ((*spins)++ > 200)
		sys_sched_yield();
	else
		ck_pr_stall();
}

bool hold_single_supported(void)
{
	/* Pairs with nothing: only tries whether both are allowed. */
	return sys_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
	       sys_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

EARLY_CODE void hold_single_begin(void)
{
	hold_single = (struct hold_single){.lock = CK_SPINLOCK_FAS_INITIALIZER};
	hold_owner = false;
}

void hold_fork_child(void)
{
	ck_spinlock_fas_init(&hold_single.lock);
	/* Another thread may have been in the middle of go_over(). */
	if (ring_mode_now() == HOLD_SINGLE)
		hold_single_begin();
	else if (hold_single.wanted == HOLD_LEFT)
		hold_single.left = true;
}

/* ---- fences for the owner ------------------------------------------------------------- */

/*
 * Without membarrier(2): this thread runs once on every processor on which the owner may run.
 * Wherever the owner was meanwhile, the kernel has taken a processor from it, which is a fence.
 * False: not possible.
 */
static bool visit_processors(int tid)
{
	cpu_set_t before, owners, one;
	bool all = true;
	int rc;

	rc = (int)sys_call(SYS_sched_getaffinity, tid, sizeof(owners), &owners, 0, 0, 0);
	if (rc == -ESRCH)
		return true; /* the thread has ended */
	if (rc < 0 || sys_call(SYS_sched_getaffinity, 0, sizeof(before), &before, 0, 0, 0) < 0)
		return false;
	for (int cpu = 0; all && cpu < rc * 8; cpu++) {
		if (!CPU_ISSET(cpu, &owners))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		all = !sys_call(SYS_sched_setaffinity, 0, sizeof(one), &one, 0, 0, 0);
	}
	sys_call(SYS_sched_setaffinity, 0, sizeof(before), &before, 0, 0, 0);
	return all;
}

static bool fence_by_membarrier(void)
{
	/* Pairs with the plain store and load of hold_enter_single(), as below. */
	int rc = sys_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);

	/* Not registered: the same again, and it pairs with the same. */
	if (rc == -EPERM && !sys_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		rc = sys_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	return rc == 0;
}

/* ---- from HOLD_SINGLE to HOLD_SPIN ------------------------------------------------------- */

/*
 * Under hold_single.lock, so the internal thread holds no ring.  After the fence, the owner has
 * either stored ->inside, and leaves that ring soon, or it will see HOLD_LEFT.  False: there
 * is no way to make it execute a fence, and everything is as before.
 */
static bool go_over(void)
{
	int spins = 0;

	/* release: pairs with the loads in hold_enter_single() and hold_wait_wanted() */
	__atomic_store_n(&hold_single.wanted, HOLD_LEFT, __ATOMIC_RELEASE);
	if (hold_single.tid && !fence_by_membarrier() && !visit_processors(hold_single.tid)) {
		/* release: pairs with the load in hold_wait_wanted() */
		__atomic_store_n(&hold_single.wanted, NULL, __ATOMIC_RELEASE);
		return false;
	}
	delay_at(DELAY_HOLD_WANTED);
	/* acquire: pairs with the stores of NULL in hold_release() and hold_wait_wanted() */
	while (__atomic_load_n(&hold_single.inside, __ATOMIC_ACQUIRE))
		stall(&spins);
	/* release: pairs with ring_mode_now(): what the owner wrote in its rings is seen */
	__atomic_store_n(&ring_mode, HOLD_SPIN, __ATOMIC_RELEASE);
	/* release: pairs with hold_single_left() */
	__atomic_store_n(&hold_single.left, true, __ATOMIC_RELEASE);
	return true;
}

/* A call of HOLD_SINGLE, or a thread that read ring_mode before it changed. */
static void take_after_single(struct hold *hold)
{
	lock_spin(&hold->spin);
	/* The hot calls of HOLD_SINGLE release a ring without a fence, see ring_release(). */
	ring_look_after_release(container_of(hold, struct ring, hold));
}

static void tell_second(bool over)
{
	if (over)
		log_warn(
			"A second thread uses sockets, and VMA_THREAD_MODE=0 is for one thread: the "
			"process goes on in mode 1, with locks. Set VMA_THREAD_MODE=1 for this "
			"program; it overrides what VMA_SPEC sets");
	else
		log_error(
			"A second thread uses sockets, and VMA_THREAD_MODE=0 is for one thread: its "
			"calls fail, because the process may not call membarrier(2) any more. Set "
			"VMA_THREAD_MODE=1 for this program");
}

/* Returns whether the process left HOLD_SINGLE, now or before. */
static bool leave_single(bool tell)
{
	static bool refused; /* under hold_single.lock: the user was told */
	bool over, before;

	lock_spin(&hold_single.lock);
	before = hold_single_left();
	over = before || go_over();
	tell = tell && !before && !refused;
	refused = !over;
	ck_spinlock_fas_unlock(&hold_single.lock);
	if (!before && over)
		progress_kick(); /* its hook gives sockets the calls of the new mode */
	if (tell)
		tell_second(over);
	return over;
}

/* True: this thread is the owner now. */
static bool become_owner(void)
{
	lock_spin(&hold_single.lock);
	hold_owner = !hold_single.tid && !hold_single_left();
	if (hold_owner)
		hold_single.tid = sys_gettid();
	ck_spinlock_fas_unlock(&hold_single.lock);
	return hold_owner;
}

bool hold_as_other(struct hold *hold)
{
	if (!hold_single_left()) {
		if (become_owner()) {
			hold_enter_single(hold);
			return true;
		}
		if (!leave_single(true))
			return false;
	}
	take_after_single(hold);
	return true;
}

void hold_at_exit(void)
{
	bool began;

	if (ring_mode_now() != HOLD_SINGLE || ring_thread.internal || hold_owner)
		return;
	began = busy_begin(); /* a handler would find the lock taken by its own thread */
	if (!become_owner())
		leave_single(false);
	busy_end(began);
}

/* ---- the owner and the internal thread ----------------------------------------------------- */

void hold_wait_wanted(struct hold *hold)
{
	struct hold *wanted;

	/* acquire: pairs with hold_release_other(), hold_try_single() and go_over() */
	while ((wanted = __atomic_load_n(&hold_single.wanted, __ATOMIC_ACQUIRE)) == hold ||
	       wanted == HOLD_LEFT) {
		int spins = 0;

		/* release: pairs with the loads of ->inside in go_over() and hold_try_single() */
		__atomic_store_n(&hold_single.inside, NULL, __ATOMIC_RELEASE);
		/* acquire: as above */
		while (__atomic_load_n(&hold_single.wanted, __ATOMIC_ACQUIRE) == wanted &&
		       !hold_single_left())
			stall(&spins);
		if (hold_single_left()) {
			take_after_single(hold);
			return;
		}
		/* The fence pairs with membarrier(2), as in hold_enter_single(). */
		__atomic_store_n(&hold_single.inside, hold, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	}
}

/* Under hold_single.lock, which it releases unless it returns true. */
static bool try_wanted(struct hold *hold)
{
	/* release: pairs with the load in hold_enter_single() */
	__atomic_store_n(&hold_single.wanted, hold, __ATOMIC_RELEASE);
	/*
	 * Pairs with the plain store and load of hold_enter_single().  After it this thread sees
	 * every store that the owner has made, and every later hold_acquire() of the owner sees
	 * ->wanted: at least one of the two notices the other.
	 */
	if (!fence_by_membarrier()) {
		/* Refused since the start: the internal thread goes on if the locks can be used. */
		if (go_over()) {
			ck_spinlock_fas_unlock(&hold_single.lock);
			log_warn("VMA_THREAD_MODE=0 needs membarrier(2), which is refused from now "
				 "on; using 1");
			return ck_spinlock_fas_trylock(&hold->spin);
		}
	} else {
		delay_at(DELAY_HOLD_WANTED);
		/* acquire: pairs with the stores of NULL in hold_release(), hold_wait_wanted() */
		if (__atomic_load_n(&hold_single.inside, __ATOMIC_ACQUIRE) != hold)
			return true;
	}
	/* release: pairs with the loads in hold_enter_single() and hold_wait_wanted() */
	__atomic_store_n(&hold_single.wanted, NULL, __ATOMIC_RELEASE);
	ck_spinlock_fas_unlock(&hold_single.lock);
	return false;
}

bool hold_try_single(struct hold *hold)
{
	/* It is locked for some instructions, or while a second thread makes the process go over. */
	lock_spin(&hold_single.lock);
	if (!hold_single_left())
		return try_wanted(hold);
	ck_spinlock_fas_unlock(&hold_single.lock);
	return ck_spinlock_fas_trylock(
		&hold->spin); /* a poster relies on it: the ring may be free */
}
