/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks and members of a port group.
 *
 * Not a robust mutex of the C library: its list of held mutexes runs through the
 * shared memory, where another member's mistake would make this process write
 * anywhere.  Here a lock names its holder, and who finds it taken for long asks
 * the kernel whether that one still lives.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/sys.h"
#include "ring/xdp/xdp_group.h"

#define SPINS 200 /* a holder is done after a microsecond or two */
#define YIELDS 8  /* or has lost its processor */
#define GEN_MAX 0xffffffu
#define WAITS 50 /* of 1 ms: what is done under a lock is done sooner */

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

/* 0: nobody else has it; also when we have it ourselves. */
static int record_holder(const struct xdp_group *g, unsigned member)
{
	struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = member, .l_len = 1};

	if (sys_fcntl(g->ctl_fd, F_GETLK, (long)&fl))
		return 1; /* cannot be asked: nobody is declared dead */
	return fl.l_type != F_UNLCK;
}

/* type: F_WRLCK or F_UNLCK. */
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
	/* After asking: a newcomer may have taken the index. */
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
		return GROUP_BUSY; /* somebody else was faster */
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

bool group_lock_wait(struct xdp_group *g, struct group_lock *lock)
{
	struct timespec pause = {.tv_nsec = NSEC_PER_MSEC};

	for (int i = 0; i < WAITS; i++) {
		if (group_lock_try(g, lock) != GROUP_BUSY)
			return true;
		sys_ppoll(NULL, 0, &pause, NULL);
	}
	return false;
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
 * No lock but the kernel's: a record lock that nobody holds makes the index ours,
 * and the generation tells us from whoever had it before.
 */
static bool enter_as(struct xdp_group *g, unsigned i)
{
	struct group_member *m = &g->ctl->members[i];

	if (__atomic_load_n(&m->used, __ATOMIC_ACQUIRE) || !record_set(g, i, F_WRLCK))
		return false;
	GROUP_STEP();
	if (__atomic_load_n(&m->used, __ATOMIC_ACQUIRE)) {
		/* It was taken, and its member died, before we got it: the sweep is first. */
		record_set(g, i, F_UNLCK);
		return false;
	}
	g->member = i;
	g->gen = (m->gen + 1) & GEN_MAX;
	m->pid = sys_getpid();
	__atomic_store_n(&m->gen, g->gen, __ATOMIC_RELEASE);
	GROUP_STEP();
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

	__atomic_compare_exchange_n(&g->ctl->members[member].used, &mark, 0, false,
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

bool group_member_renew(struct xdp_group *g)
{
	const uint32_t *used = &g->ctl->members[g->member].used;

	/* Looked at twice: a record that is not ours is not taken, and who takes it may be late. */
	return __atomic_load_n(used, __ATOMIC_ACQUIRE) == g->gen + 1 &&
	       record_set(g, g->member, F_WRLCK) &&
	       __atomic_load_n(used, __ATOMIC_ACQUIRE) == g->gen + 1;
}
