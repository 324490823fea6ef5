/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/reuseport.h"

_Static_assert(REUSEPORT_MEMBERS <= 64, "a mask has one bit per member");
_Static_assert(REUSEPORT_BUCKETS >= REUSEPORT_MEMBERS, "each member has a place");

int reuseport_add(struct reuseport_members *members, const struct flow_share *share, unsigned slot)
{
	uint32_t last = 0;
	int free = -1;

	for (int i = REUSEPORT_MEMBERS; i-- > 0;) {
		const struct reuseport_member *m = &members->at[i];

		if (!m->seq)
			free = i;
		last = m->seq > last ? m->seq : last;
	}
	if (free < 0)
		return -1;
	members->at[free] = (struct reuseport_member){
		.slot = (uint16_t)slot, .rank = share->rank, .spread = share->spread};
	/*
	 * Last: a seq of 0 means there is no member.  release: for a process that takes over
	 * when this one dies here; pairs with take() of the group's lock (xdp_group_lock.c).
	 */
	__atomic_store_n(&members->at[free].seq, last + 1, __ATOMIC_RELEASE);
	return free;
}

static uint64_t bit(unsigned i)
{
	return UINT64_C(1) << i;
}

/* The latest member of the highest rank; REUSEPORT_MEMBERS: there are no members. */
static unsigned first_of(const struct reuseport_members *members)
{
	unsigned best = REUSEPORT_MEMBERS;

	for (unsigned i = 0; i < REUSEPORT_MEMBERS; i++) {
		const struct reuseport_member *m = &members->at[i];
		const struct reuseport_member *b = &members->at[best % REUSEPORT_MEMBERS];

		if (m->seq && (best == REUSEPORT_MEMBERS || m->rank > b->rank ||
			       (m->rank == b->rank && m->seq > b->seq)))
			best = i;
	}
	return best;
}

uint64_t reuseport_receivers(const struct reuseport_members *members)
{
	unsigned first = first_of(members);
	uint64_t all = 0;

	if (first == REUSEPORT_MEMBERS)
		return 0;
	if (!members->at[first].spread)
		return bit(first);
	for (unsigned i = 0; i < REUSEPORT_MEMBERS; i++) {
		const struct reuseport_member *m = &members->at[i];

		if (m->seq && m->spread && m->rank == members->at[first].rank)
			all |= bit(i);
	}
	return all;
}

static bool receives(uint64_t receivers, unsigned i)
{
	return i < REUSEPORT_MEMBERS && receivers & bit(i);
}

/* The receiver with the fewest places. */
static unsigned poorest(const unsigned count[REUSEPORT_MEMBERS], uint64_t receivers)
{
	unsigned best = (unsigned)__builtin_ctzll(receivers);

	for (unsigned i = best + 1; i < REUSEPORT_MEMBERS; i++) {
		if (receives(receivers, i) && count[i] < count[best])
			best = i;
	}
	return best;
}

static unsigned richest(const unsigned count[REUSEPORT_MEMBERS], uint64_t receivers)
{
	unsigned best = (unsigned)__builtin_ctzll(receivers);

	for (unsigned i = best + 1; i < REUSEPORT_MEMBERS; i++) {
		if (receives(receivers, i) && count[i] > count[best])
			best = i;
	}
	return best;
}

static void give(uint8_t *bucket, unsigned count[REUSEPORT_MEMBERS], unsigned to)
{
	count[to]++;
	__atomic_store_n(bucket, (uint8_t)to, __ATOMIC_RELAXED);
}

void reuseport_balance(uint8_t buckets[REUSEPORT_BUCKETS], uint64_t receivers)
{
	unsigned count[REUSEPORT_MEMBERS] = {0};

	if (!receivers)
		return;
	for (unsigned b = 0; b < REUSEPORT_BUCKETS; b++) {
		unsigned member = buckets[b]; /* read once: other processes may write the memory */

		if (receives(receivers, member))
			count[member]++;
	}
	/* Places without a receiver go to the receiver with the fewest places. */
	for (unsigned b = 0; b < REUSEPORT_BUCKETS; b++) {
		if (!receives(receivers, buckets[b]))
			give(&buckets[b], count, poorest(count, receivers));
	}
	/* Then, one by one, places of the receiver with the most. */
	for (;;) {
		unsigned from = richest(count, receivers), to = poorest(count, receivers);
		unsigned b = 0;

		while (b < REUSEPORT_BUCKETS && buckets[b] != from)
			b++;
		if (count[from] <= count[to] + 1 || b == REUSEPORT_BUCKETS)
			return;
		count[from]--;
		give(&buckets[b], count, to);
	}
}
