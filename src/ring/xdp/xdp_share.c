/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows with several receivers (ring/reuseport.h).  The control segment has the list of
 * receivers (struct group_share).  A map, which every member of the group has mapped, has what the
 * program needs to choose among them (struct xdp_steer_share).  The entry of the flow in flows3
 * has the number of both.
 *
 * Role		holders of rings, under the group's lock; sweeps: any member of the
 *		group that has the lock.
 * Ordering	a receiver is in both memories before the entry is made, and the entry
 *		is removed before the last receiver.  A share without receivers is free.
 *		If a process dies while it makes a share, only dead receivers are in it
 *		until the sweep.  Buckets are computed from the old ones and the
 *		receivers: if a process dies while it changes them, they are uneven
 *		until the next change.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "ring/xdp/xdp_entry.h"
#include "ring/xdp/xdp_internal.h"

#define SHARES_LEN (XDP_STEER_SHARES * sizeof(struct xdp_steer_share))

_Static_assert(sizeof(struct xdp_steer_share) % 8 == 0, "the map has no gaps between values");

int xdp_map_shares(struct xdp_port *port)
{
	struct xdp_map map = {0};
	int rc = xdp_map(&map, SHARES_LEN, port->shares_fd, 0);

	port->shares = map.addr;
	return rc;
}

void xdp_unmap_shares(struct xdp_port *port)
{
	if (port->shares)
		munmap(port->shares, SHARES_LEN);
	port->shares = NULL;
}

/* The flow of a share. */
struct share_key {
	struct xdp_steer_key3 key3;
	struct xdp_steer_exact exact;
};

static bool same_key(const struct group_share *share, const struct share_key *key)
{
	const struct xdp_steer_key3 *a = &share->key, *b = &key->key3;

	return a->local == b->local && a->local_port == b->local_port && a->proto == b->proto &&
	       memcmp(&share->exact, &key->exact, sizeof(key->exact)) == 0;
}

/* ---- members (the group's lock) --------------------------------------------------- */

/* 0: the kernel gets the frames.  For a member of this process, also without the lock. */
static void set_slot(struct xdp_port *port, unsigned at, unsigned member, unsigned slot_and_one)
{
	/* release: pairs with find_member() of the program */
	__atomic_store_n(&port->shares[at].slot[member], (uint16_t)slot_and_one, __ATOMIC_RELEASE);
}

static void drop_member(struct xdp_port *port, unsigned at, unsigned member)
{
	struct reuseport_member *m = &port->group.ctl->shares[at].members.at[member];

	set_slot(port, at, member, 0);
	/* release: after the slot; pairs with the next take() of the group's lock, by any process */
	__atomic_store_n(&m->seq, 0, __ATOMIC_RELEASE);
	GROUP_STEP();
}

static bool is_empty(const struct group_share *share)
{
	return reuseport_receivers(&share->members) == 0;
}

/* Removes the entry of a share without members, unless another share or flow has it by now. */
static void drop_entry(struct xdp_port *port, unsigned at)
{
	const struct group_share *share = &port->group.ctl->shares[at];
	const struct xdp_steer_key3 *key = &share->key;
	uint32_t entry;

	xdp_exact_drop(port, &share->exact, at | XDP_STEER_SHARED);
	if (!map_lookup(port->flows3_fd, key, &entry) && entry == (at | XDP_STEER_SHARED))
		map_delete(port->flows3_fd, key);
	GROUP_STEP();
}

/* A member joined or left: divides the buckets among the receivers. */
static void balance(struct xdp_port *port, unsigned at)
{
	reuseport_balance(port->shares[at].bucket,
			  reuseport_receivers(&port->group.ctl->shares[at].members));
}

static void drop_dead(struct xdp_port *port, unsigned at)
{
	struct group_share *share = &port->group.ctl->shares[at];

	for (unsigned i = 0; i < REUSEPORT_MEMBERS; i++) {
		const struct reuseport_member *m = &share->members.at[i];

		if (m->seq && group_slot_is_dead(&port->group, m->slot))
			drop_member(port, at, i);
	}
}

bool xdp_share_is_dead(const struct xdp_port *port, uint32_t entry)
{
	unsigned at = entry & ~XDP_STEER_SHARED;
	const struct group_share *share;

	if (at >= XDP_STEER_SHARES)
		return true;
	share = &port->group.ctl->shares[at];
	for (unsigned i = 0; i < REUSEPORT_MEMBERS; i++) {
		const struct reuseport_member *m = &share->members.at[i];

		if (m->seq && !group_slot_is_dead(&port->group, m->slot))
			return false;
	}
	return true;
}

/* ---- joining ------------------------------------------------------------------------ */

/* A free share for the key; XDP_STEER_SHARES: there is none. */
static unsigned take_share(struct xdp_port *port, const struct share_key *key)
{
	for (unsigned at = 0; at < XDP_STEER_SHARES; at++) {
		struct group_share *share = &port->group.ctl->shares[at];

		if (!is_empty(share))
			continue;
		drop_entry(port, at); /* left by a member that could not get the lock */
		share->key = key->key3;
		share->exact = key->exact;
		return at;
	}
	return XDP_STEER_SHARES;
}

/* Finds the share of the flow, or takes a new one.  *flags: for the update of the map's entry. */
static int find_share(struct xdp_queue *q, const struct share_key *key, unsigned *at,
		      uint64_t *flags)
{
	struct xdp_port *port = (struct xdp_port *)q->base.port;
	uint32_t entry;
	bool found = !map_lookup(port->flows3_fd, &key->key3, &entry);

	*flags = BPF_EXIST;
	if (found && entry & XDP_STEER_SHARED) {
		*at = entry & ~XDP_STEER_SHARED;
		if (*at < XDP_STEER_SHARES && same_key(&port->group.ctl->shares[*at], key)) {
			drop_dead(port, *at);
			return 0;
		}
	} else if (found && entry != q->slot && !group_slot_is_dead(&port->group, entry)) {
		return -EEXIST;
	} else if (!found) {
		*flags = BPF_NOEXIST;
	}
	*at = take_share(port, key);
	return *at < XDP_STEER_SHARES ? 0 : -ENOSPC;
}

/* The group's lock. */
static int join(struct xdp_queue *q, const struct share_key *key, struct flow_share *part)
{
	struct xdp_port *port = (struct xdp_port *)q->base.port;
	unsigned at;
	uint64_t flags;
	bool added;
	int member, rc = find_share(q, key, &at, &flags);

	if (rc)
		return rc;
	member = reuseport_add(&port->group.ctl->shares[at].members, part, q->slot);
	if (member < 0)
		return -ENOSPC;
	GROUP_STEP();
	part->at = (uint16_t)at;
	part->member = (uint8_t)member;
	set_slot(port, at, (unsigned)member, q->slot + 1);
	balance(port, at);
	GROUP_STEP();
	rc = xdp_exact_set(port, &key->exact, at | XDP_STEER_SHARED, &added);
	if (!rc)
		rc = map_update(port->flows3_fd, &key->key3, at | XDP_STEER_SHARED, flags);
	if (rc)
		drop_member(port, at, (unsigned)member);
	if (rc && added)
		xdp_exact_drop(port, &key->exact, at | XDP_STEER_SHARED);
	return rc == -E2BIG ? -ENOSPC : rc;
}

int xdp_share_join(struct port_queue *base, const struct flow_key *key, struct flow_share *part)
{
	struct xdp_queue *q = (struct xdp_queue *)base;
	struct xdp_port *port = (struct xdp_port *)base->port;
	struct xdp_group *g = q->group;
	struct share_key both = {xdp_key3_of(port, key), xdp_exact_of(key)};
	int rc;

	if (!xdp_may_have(port, key))
		return -ENOSPC;
	if (!group_lock_wait(g, &g->ctl->lock))
		return -EAGAIN;
	xdp_kernel_set(port, &both.key3, q->slot);
	rc = join(q, &both, part);
	group_lock_release(g, &g->ctl->lock);
	return rc;
}

/* ---- leaving and moving --------------------------------------------------------------- */

/* The group's lock: after members left. */
static void balance_or_drop(struct xdp_port *port, unsigned at)
{
	if (is_empty(&port->group.ctl->shares[at]))
		drop_entry(port, at);
	else
		balance(port, at);
}

/* Has the share no other member? */
static bool is_alone(const struct group_share *share, unsigned member)
{
	for (unsigned i = 0; i < REUSEPORT_MEMBERS; i++) {
		if (i != member && share->members.at[i].seq)
			return false;
	}
	return true;
}

/* The group's lock.  Other members get its buckets first; else the kernel would get the frames. */
static void leave_share(struct xdp_port *port, unsigned at, unsigned member)
{
	struct group_share *share = &port->group.ctl->shares[at];

	if (is_alone(share, member))
		drop_entry(port, at);
	/* release: pairs with the next take() of the group's lock, by any process */
	__atomic_store_n(&share->members.at[member].seq, 0, __ATOMIC_RELEASE);
	GROUP_STEP();
	balance_or_drop(port, at);
	GROUP_STEP();
	set_slot(port, at, member, 0);
}

void xdp_share_leave(struct port_queue *base, const struct flow_key *key,
		     const struct flow_share *part)
{
	struct xdp_port *port = (struct xdp_port *)base->port;
	struct xdp_group *g = &port->group;

	if (!group_lock_wait(g, &g->ctl->lock)) {
		/* The kernel gets its part of the frames until another member joins or leaves. */
		drop_member(port, part->at, part->member);
		return;
	}
	leave_share(port, part->at, part->member);
	group_lock_release(g, &g->ctl->lock);
}

int xdp_share_move(struct port_queue *base, const struct flow_key *key,
		   const struct flow_share *part)
{
	const struct xdp_queue *q = (const struct xdp_queue *)base;
	struct xdp_port *port = (struct xdp_port *)base->port;
	struct xdp_group *g = &port->group;
	struct reuseport_member *m = &g->ctl->shares[part->at].members.at[part->member];

	/* A member that sweeps or balances meanwhile would act on the former slot. */
	if (!group_lock_wait(g, &g->ctl->lock))
		return -EAGAIN;
	/* release: pairs with the next take() of the group's lock */
	__atomic_store_n(&m->slot, (uint16_t)q->slot, __ATOMIC_RELEASE);
	set_slot(port, part->at, part->member, q->slot + 1);
	group_lock_release(g, &g->ctl->lock);
	return 0;
}

unsigned xdp_share_pick(struct port_queue *base, const struct flow_share *part,
			const struct flow_key *key)
{
	const struct xdp_port *port = (const struct xdp_port *)base->port;
	unsigned place = reuseport_bucket(xdp_key_addr(port, &key->remote), key->remote_port,
					  port->conf->seed);

	return __atomic_load_n(&port->shares[part->at].bucket[place], __ATOMIC_RELAXED);
}

void xdp_shares_clear(struct xdp_port *port, const uint8_t slots[XDP_STEER_SLOTS], bool locked)
{
	for (unsigned at = 0; at < XDP_STEER_SHARES; at++) {
		struct group_share *share = &port->group.ctl->shares[at];
		bool changed = false;

		for (unsigned i = 0; i < REUSEPORT_MEMBERS; i++) {
			const struct reuseport_member *m = &share->members.at[i];
			unsigned slot = __atomic_load_n(&m->slot, __ATOMIC_RELAXED);

			if (!m->seq || (slot < XDP_STEER_SLOTS && !slots[slot]))
				continue;
			drop_member(port, at, i);
			changed = true;
		}
		if (changed && locked)
			balance_or_drop(port, at);
	}
}
