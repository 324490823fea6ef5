/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slots of a port group, and the sweep that reclaims the slots of dead members.
 *
 *	died or closed		the slot is GONE, nothing is steered to it
 *	GROUP_QUARANTINE later	the frames it held and sent are in the pool, the slot is FREE
 *
 * An audit finds the frames that waited in the RX rings of dead members:
 *
 *	AUDIT_SETTLE after the death	the kernel has closed its sockets; mark how far the kernel
 *					has read the fill rings
 *	AUDIT_ARRIVE later		the frames that it read until then are in RX rings; ask the
 *					living members to drain theirs
 *	all have done so		frames that no member received were in the RX ring of a dead
 *					member, and go to the pool
 *
 * There is no audit with zero-copy, since a driver keeps frames that it took.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "ring/xdp/xdp_group.h"

#define AUDIT_SETTLE (100 * NSEC_PER_MSEC)
#define AUDIT_ARRIVE (50 * NSEC_PER_MSEC)

static void unlock(struct xdp_group *g)
{
	group_lock_release(g, &g->ctl->lock);
}

/* lock */
static void count_slots(struct group_ctl *ctl)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < XDP_STEER_SLOTS; i++)
		n += ctl->slots[i].state == SLOT_USED;
	__atomic_store_n(&ctl->n_slots, n, __ATOMIC_RELAXED);
}

static void set_state(struct group_ctl *ctl, struct group_slot *slot, enum group_slot_state state)
{
	/* release: pairs with group_slot_is_dead(); the slot's other fields are written before */
	__atomic_store_n(&slot->state, state, __ATOMIC_RELEASE);
	GROUP_STEP();
	count_slots(ctl);
}

nsec_t group_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts); /* every member sees the same */
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/* ---- audit -------------------------------------------------------------------------- */

/* lock */
static void set_stage(struct group_audit *audit, enum audit_stage stage, nsec_t now)
{
	audit->since = now;
	/* release: pairs with sweep() (xdp_group_service.c) */
	__atomic_store_n(&audit->stage, stage, __ATOMIC_RELEASE);
	GROUP_STEP();
}

static void want_audit(struct xdp_group *g, nsec_t now)
{
	struct group_audit *audit = &g->ctl->audit;

	if (g->zerocopy)
		return;
	if (audit->stage == AUDIT_NONE)
		set_stage(audit, AUDIT_WANTED, now);
	else
		audit->again = 1;
}

static void mark(struct xdp_group *g)
{
	/* acquire: pairs with the kernel's release of fill ring entries */
	for (unsigned i = 0; i < g->queues; i++)
		g->ctl->audit.limit[i] = __atomic_load_n(g->fill[i].consumer, __ATOMIC_ACQUIRE);
}

static bool all_drained(const struct group_ctl *ctl)
{
	for (unsigned i = 0; i < XDP_STEER_SLOTS; i++) {
		const struct group_slot *slot = &ctl->slots[i];

		/* acquire: pairs with group_slot_drained() */
		if (slot->state == SLOT_USED &&
		    __atomic_load_n(&slot->drained, __ATOMIC_ACQUIRE) != ctl->audit.seq)
			return false;
	}
	return true;
}

/* lock */
static void audit_step(struct xdp_group *g, nsec_t now)
{
	struct group_audit *audit = &g->ctl->audit;
	nsec_t age = now - audit->since;

	switch (audit->stage) {
	case AUDIT_WANTED:
		if (age < AUDIT_SETTLE)
			return;
		audit->again = 0;
		mark(g);
		GROUP_STEP();
		set_stage(audit, AUDIT_MARKED, now);
		return;
	case AUDIT_MARKED:
		if (age < AUDIT_ARRIVE)
			return;
		/* release: pairs with tell_drained(), which reads it before the RX rings */
		__atomic_store_n(&audit->seq, audit->seq + 1, __ATOMIC_RELEASE);
		GROUP_STEP();
		set_stage(audit, AUDIT_DRAINING, now);
		return;
	case AUDIT_DRAINING:
		if (!all_drained(g->ctl) || !group_settle(g))
			return;
		/*
		 * A zero-copy driver keeps frames that it takes, and uses a frame that went to
		 * the kernel again, so positions tell nothing.  Frames that were unread in the
		 * RX rings of dead members are lost until the group ends.
		 */
		if (!g->zerocopy && !group_reclaim(g, NULL, audit->limit))
			return;
		GROUP_STEP();
		set_stage(audit, audit->again ? AUDIT_WANTED : AUDIT_NONE, now);
		return;
	default:
		return;
	}
}

/* ---- slots -------------------------------------------------------------------------- */

int group_slot_open(struct xdp_group *g, unsigned *out)
{
	struct group_ctl *ctl = g->ctl;
	int rc = -ENOSPC;

	if (!group_lock_wait(g, &ctl->lock))
		return -EAGAIN;
	for (unsigned i = 0; i < XDP_STEER_SLOTS && rc; i++) {
		struct group_slot *slot = &ctl->slots[i];

		if (slot->state != SLOT_FREE)
			continue;
		slot->member = g->member;
		slot->gen = g->gen;
		slot->killed = 0;
		slot->spare = 0;
		slot->drained = ctl->audit.seq;
		GROUP_STEP();
		set_state(ctl, slot, SLOT_USED);
		*out = i;
		rc = 0;
	}
	unlock(g);
	return rc;
}

/* lock */
static void slot_gone(struct xdp_group *g, struct group_slot *slot, bool killed, nsec_t now)
{
	slot->since = now;
	slot->killed = killed;
	GROUP_STEP();
	set_state(g->ctl, slot, SLOT_GONE);
}

int group_slot_close(struct xdp_group *g, unsigned i, bool killed, nsec_t now)
{
	struct group_slot *slot = &g->ctl->slots[i];

	if (!group_lock_wait(g, &g->ctl->lock))
		return -EAGAIN;
	if (killed)
		want_audit(g, now);
	if (killed || group_count_slot(g, i))
		slot_gone(g, slot, killed, now);
	else
		set_state(g->ctl, slot, SLOT_FREE);
	unlock(g);
	return 0;
}

bool group_slot_is_dead(const struct xdp_group *g, unsigned i)
{
	const struct group_slot *slot;

	if (i >= XDP_STEER_SLOTS)
		return true;
	slot = &g->ctl->slots[i];
	/* acquire: pairs with set_state(); ->member and ->gen are read after it */
	return __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != SLOT_USED ||
	       !group_member_alive(g, slot->member, slot->gen);
}

/* ---- the sweep ------------------------------------------------------------------------ */

/* lock */
static void end_slots(struct xdp_group *g, const uint8_t dead[XDP_STEER_SLOTS], nsec_t now,
		      group_unsteer_fn unsteer, void *arg)
{
	if (!memchr(dead, 1, XDP_STEER_SLOTS))
		return;
	unsteer(arg, dead);
	/* First: if this process dies here, the next member finds slots that are not GONE yet. */
	want_audit(g, now);
	GROUP_STEP();
	for (unsigned i = 0; i < XDP_STEER_SLOTS; i++)
		if (dead[i])
			slot_gone(g, &g->ctl->slots[i], true, now);
}

/*
 * lock: makes the slots of a dead member GONE, then frees its index.  The generation protects a
 * newcomer that has the index by now.
 */
static void bury(struct xdp_group *g, unsigned index, uint32_t gen, nsec_t now,
		 group_unsteer_fn unsteer, void *arg)
{
	uint8_t dead[XDP_STEER_SLOTS];

	for (unsigned i = 0; i < XDP_STEER_SLOTS; i++) {
		const struct group_slot *slot = &g->ctl->slots[i];

		dead[i] = slot->state == SLOT_USED && slot->member == index && slot->gen == gen;
	}
	end_slots(g, dead, now, unsteer, arg);
	group_member_vacate(g, index, gen);
	GROUP_STEP();
}

/* lock: the slot is USED, but its member left without closing it, or does not exist. */
static bool is_nobodys(const struct group_ctl *ctl, const struct group_slot *slot)
{
	uint32_t member = __atomic_load_n(&slot->member, __ATOMIC_RELAXED);

	/* acquire: pairs with enter_as() (xdp_group_lock.c) */
	return slot->state == SLOT_USED &&
	       (member >= GROUP_MEMBERS ||
		__atomic_load_n(&ctl->members[member].used, __ATOMIC_ACQUIRE) != slot->gen + 1);
}

static void find_dead(struct xdp_group *g, nsec_t now, group_unsteer_fn unsteer, void *arg)
{
	uint8_t dead[XDP_STEER_SLOTS];

	for (unsigned i = 0; i < GROUP_MEMBERS; i++) {
		/*
		 * One word, so generation and mark are of the same member.
		 * acquire: pairs with enter_as() (xdp_group_lock.c)
		 */
		uint32_t used = __atomic_load_n(&g->ctl->members[i].used, __ATOMIC_ACQUIRE);

		GROUP_STEP();
		if (i != g->member && used && !group_member_alive(g, i, used - 1))
			bury(g, i, used - 1, now, unsteer, arg);
	}
	for (unsigned i = 0; i < XDP_STEER_SLOTS; i++)
		dead[i] = is_nobodys(g->ctl, &g->ctl->slots[i]);
	end_slots(g, dead, now, unsteer, arg);
}

/* The slots whose quarantine is over; returns how many others are still in quarantine. */
static unsigned find_due(const struct group_ctl *ctl, nsec_t now, uint8_t due[XDP_STEER_SLOTS],
			 bool *any)
{
	nsec_t quarantine = ctl->zerocopy ? GROUP_QUARANTINE_ZEROCOPY : GROUP_QUARANTINE;
	unsigned waiting = 0;

	for (unsigned i = 0; i < XDP_STEER_SLOTS; i++) {
		const struct group_slot *slot = &ctl->slots[i];
		bool gone = slot->state == SLOT_GONE;

		due[i] = gone && now - slot->since >= quarantine;
		*any |= due[i];
		waiting += gone && !due[i];
	}
	return waiting;
}

static bool free_due(struct xdp_group *g, nsec_t now, group_unsteer_fn unsteer, void *arg)
{
	uint8_t due[XDP_STEER_SLOTS];
	bool any = false;
	unsigned waiting = find_due(g->ctl, now, due, &any);

	if (!any)
		return waiting == 0;
	if (!group_settle(g) || !group_reclaim(g, due, NULL))
		return false;
	unsteer(arg, due); /* again: the process may have steered when it was killed */
	for (unsigned i = 0; i < XDP_STEER_SLOTS; i++)
		if (due[i])
			set_state(g->ctl, &g->ctl->slots[i], SLOT_FREE);
	return waiting == 0;
}

bool group_sweep(struct xdp_group *g, nsec_t now, group_unsteer_fn unsteer, void *arg)
{
	bool done;

	/* Nothing to repair after a death: each step below can be repeated. */
	if (group_lock_try_in_turn(g, &g->ctl->lock, &g->sweep_turn) == GROUP_BUSY)
		return true;
	find_dead(g, now, unsteer, arg);
	audit_step(g, now);
	done = free_due(g, now, unsteer, arg);
	count_slots(g->ctl); /* a member may have died before it did that */
	done &= g->ctl->audit.stage == AUDIT_NONE;
	unlock(g);
	return !done;
}
