/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks and members of a port group.
 *
 * These are not robust mutexes of the C library: the list of held mutexes is in the shared
 * memory, where a fault in another member could make this process write to any address.  A lock
 * here names its holder, and a member that finds it taken for long asks the kernel whether the
 * holder still lives.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/sys.h"
#include "ring/xdp/xdp_group.h"

#define SPINS 200 /* a holder releases a lock after a microsecond or two */
#define YIELDS 8  /* unless it lost its processor */
#define GEN_MAX 0xffffffu
#define WAITS 500 /* of 1 ms: a living holder releases a lock sooner, on a busy machine, too */
#define WAITS_MAX (4 * WAITS) /* in all, for locks that many want */
#define TURN 20 /* of them, or sweeps: who is next has a free lock by then, unless stopped */

#ifdef XDP_GROUP_STEPS
static void no_step(void)
{
}

void (*group_step)(void) = no_step;
#endif

static uint32_t lock_word(unsigned member, uint32_t gen)
{
	return gen << 8 | (member + 1);
}

/* Does another process hold the record lock?  0 also when this process holds it. */
static int record_holder(const struct xdp_group *g, unsigned member)
{
	struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = member, .l_len = 1};

	if (sys_fcntl(g->ctl_fd, F_GETLK, (long)&fl))
		return 1; /* not known: do not take the member for dead */
	return fl.l_type != F_UNLCK;
}

/* Takes or releases the record lock; type: F_WRLCK or F_UNLCK.  False: another process has it. */
static bool record_set(const struct xdp_group *g, unsigned member, short type)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = member, .l_len = 1};

	return !sys_fcntl(g->ctl_fd, F_SETLK, (long)&fl);
}

bool group_member_alive(const struct xdp_group *g, unsigned member, uint32_t gen)
{
	const struct group_member *m;

	if (member == g->member)
		return gen == g->gen;
	if (member >= GROUP_MEMBERS)
		return false;
	m = &g->ctl->members[member];
	if (!record_holder(g, member))
		return false;
	/*
	 * After the kernel was asked: a newcomer may have taken the index.
	 * acquire: pairs with the store of ->gen in enter_as()
	 */
	return __atomic_load_n(&m->gen, __ATOMIC_ACQUIRE) == gen;
}

/* ---- locks -------------------------------------------------------------------------- */

static bool take(const struct xdp_group *g, struct group_lock *lock, uint32_t from)
{
	/* acquire: pairs with group_lock_release() */
	return __atomic_compare_exchange_n(&lock->word, &from, lock_word(g->member, g->gen), false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static enum group_lock_result lock_slow(struct xdp_group *g, struct group_lock *lock)
{
	uint32_t word = 0;

	for (int i = 0; i < SPINS + YIELDS; i++) {
		word = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);
		if (!word && take(g, lock, 0))
			return GROUP_LOCKED;
		if (i < SPINS)
			__builtin_ia32_pause();
		else
			sys_sched_yield();
	}
	if (!word || group_member_alive(g, (word & 0xff) - 1, word >> 8))
		return GROUP_BUSY;
	if (!take(g, lock, word))
		return GROUP_BUSY; /* another member took it first */
	__atomic_fetch_add(&g->ctl->stolen, 1, __ATOMIC_RELAXED);
	return GROUP_DIED;
}

enum group_lock_result group_lock_try(struct xdp_group *g, struct group_lock *lock)
{
	enum group_lock_result got;

	if (__builtin_expect(__atomic_load_n(&g->lost, __ATOMIC_RELAXED), 0))
		return GROUP_BUSY;
	got = take(g, lock, 0) ? GROUP_LOCKED : lock_slow(g, lock);

	GROUP_STEP();
	return got;
}

static void next_no_more(struct group_lock *lock, uint32_t next)
{
	if (__atomic_load_n(&lock->wanted, __ATOMIC_RELAXED) == next)
		__atomic_compare_exchange_n(&lock->wanted, &next, 0, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

/*
 * Is another member next, which is alive and has had less than its turn?  That is counted anew for
 * each one that is next, and only while the lock is free: else members that have waited for long
 * would take each other for stopped.
 */
static bool another_is_next(const struct xdp_group *g, const struct group_lock *lock,
			    struct group_turn *turn)
{
	uint32_t next = __atomic_load_n(&lock->wanted, __ATOMIC_RELAXED);

	if (next != turn->next)
		*turn = (struct group_turn){.next = next};
	if (!next || next == lock_word(g->member, g->gen) ||
	    !group_member_alive(g, (next & 0xff) - 1, next >> 8))
		return false;
	if (!__atomic_load_n(&lock->word, __ATOMIC_RELAXED))
		turn->missed++;
	return turn->missed <= TURN;
}

enum group_lock_result group_lock_try_in_turn(struct xdp_group *g, struct group_lock *lock,
					      struct group_turn *turn)
{
	return another_is_next(g, lock, turn) ? GROUP_BUSY : group_lock_try(g, lock);
}

/* Unless another one is. */
static void become_next(const struct xdp_group *g, struct group_lock *lock)
{
	uint32_t nobody = 0;

	__atomic_compare_exchange_n(&lock->wanted, &nobody, lock_word(g->member, g->gen), false,
				    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Has it had the same holder for WAITS pauses?  *since: when this one was seen first, after n pauses. */
static bool holder_is_stopped(const struct group_lock *lock, uint32_t *seen, int *since, int n)
{
	uint32_t word = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);

	if (word != *seen || !word) {
		*seen = word;
		*since = n;
	}
	return n - *since >= WAITS;
}

bool group_lock_wait(struct xdp_group *g, struct group_lock *lock)
{
	struct group_turn turn = {0};
	uint32_t holder = 0;
	int since = 0;
	bool got = false;

	for (int i = 0; i < WAITS_MAX && !holder_is_stopped(lock, &holder, &since, i) &&
			!__atomic_load_n(&g->lost, __ATOMIC_RELAXED);
	     i++) {
		if (!another_is_next(g, lock, &turn)) {
			/* It is dead, or seems to be stopped. */
			if (turn.next && turn.next != lock_word(g->member, g->gen))
				next_no_more(lock, turn.next);
			got = group_lock_try(g, lock) != GROUP_BUSY;
			if (got)
				break;
		}
		become_next(g, lock);
		GROUP_STEP();
		sys_sleep(NSEC_PER_MSEC);
	}
	next_no_more(lock, lock_word(g->member, g->gen));
	return got;
}

void group_lock_release(struct xdp_group *g, struct group_lock *lock)
{
	GROUP_STEP();
	/* release: pairs with take() */
	__atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE);
	GROUP_STEP();
}

/* ---- members -------------------------------------------------------------------------- */

/*
 * Needs no lock but the kernel's record lock: the process that gets it has the index.  The
 * generation distinguishes it from the members that had the index before.
 */
static bool enter_as(struct xdp_group *g, unsigned i)
{
	struct group_member *m = &g->ctl->members[i];

	/* acquire: pairs with group_member_vacate() and with the store of ->used below */
	if (__atomic_load_n(&m->used, __ATOMIC_ACQUIRE) || !record_set(g, i, F_WRLCK))
		return false;
	GROUP_STEP();
	/* acquire: pairs with the same, now that this process has the record lock */
	if (__atomic_load_n(&m->used, __ATOMIC_ACQUIRE)) {
		/* A member took it and died since the first look: the sweep must come first. */
		record_set(g, i, F_UNLCK);
		return false;
	}
	g->member = i;
	g->gen = (m->gen + 1) & GEN_MAX;
	m->pid = sys_getpid();
	/* release: pairs with group_member_alive() */
	__atomic_store_n(&m->gen, g->gen, __ATOMIC_RELEASE);
	GROUP_STEP();
	/* release: pairs with find_dead() and is_nobodys(); ->gen is set before */
	__atomic_store_n(&m->used, g->gen + 1, __ATOMIC_RELEASE);
	g->entered = true;
	return true;
}

int group_member_enter(struct xdp_group *g)
{
	for (unsigned i = 0; i < GROUP_MEMBERS; i++)
		if (enter_as(g, i))
			return 0;
	return -EUSERS;
}

void group_member_leave(struct xdp_group *g)
{
	if (!g->entered)
		return;
	g->entered = false;
	group_member_vacate(g, g->member, g->gen);
	record_set(g, g->member, F_UNLCK);
}

void group_member_vacate(struct xdp_group *g, unsigned member, uint32_t gen)
{
	uint32_t mark = gen + 1;

	/* release: pairs with the loads of ->used in enter_as() */
	__atomic_compare_exchange_n(&g->ctl->members[member].used, &mark, 0, false,
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

bool group_member_renew(struct xdp_group *g)
{
	const uint32_t *used = &g->ctl->members[g->member].used;

	/*
	 * Before, so that the record lock of another member is not taken; and after, because
	 * another member may have taken this one for dead in between.
	 * acquire, both loads: pairs with group_member_vacate() and enter_as()
	 */
	return __atomic_load_n(used, __ATOMIC_ACQUIRE) == g->gen + 1 &&
	       record_set(g, g->member, F_WRLCK) &&
	       /* acquire: pairs with the same */
	       __atomic_load_n(used, __ATOMIC_ACQUIRE) == g->gen + 1;
}
