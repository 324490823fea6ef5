/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What changed in the last generations: the destinations of routes, so that a change of one route
 * does not make everything be looked up again.
 */
#include <string.h>

#include "net/netlink/netlink_internal.h"

/*
 * One generation; all of it atomic.  Written with the mutex, read by any thread: a reader that
 * finds the same number before and after the fields has read what belongs to it.
 */
struct change {
	uint32_t generation; /* 0: being written */
	uint32_t bits;	     /* of the prefix; CHANGE_ALL: anything may have changed */
	uint64_t prefix[2];
};

#define CHANGE_ALL UINT32_MAX

static struct change changes[NETLINK_CHANGES];

void changes_note(uint32_t generation, const struct route_prefix *prefix)
{
	struct change *change = &changes[generation % NETLINK_CHANGES];

	__atomic_store_n(&change->generation, 0, __ATOMIC_RELAXED);
	/* Each pairs with an acquire in read_change(): who sees a field sees the 0, too. */
	__atomic_store_n(&change->bits, prefix ? prefix->bits : CHANGE_ALL, __ATOMIC_RELEASE);
	__atomic_store_n(&change->prefix[0], prefix ? prefix->addr.q[0] : 0, __ATOMIC_RELEASE);
	/* Likewise pairs with an acquire there; the last one publishes all. */
	__atomic_store_n(&change->prefix[1], prefix ? prefix->addr.q[1] : 0, __ATOMIC_RELEASE);
	__atomic_store_n(&change->generation, generation, __ATOMIC_RELEASE);
}

/* False: it has been overwritten, or anything may have changed. */
static bool read_change(uint32_t generation, struct route_prefix *prefix)
{
	const struct change *change = &changes[generation % NETLINK_CHANGES];
	/* Each acquire pairs with the release of the same field in changes_note(). */
	uint32_t before = __atomic_load_n(&change->generation, __ATOMIC_ACQUIRE);

	prefix->bits = __atomic_load_n(&change->bits, __ATOMIC_ACQUIRE);
	/* Likewise pairs with a release there. */
	prefix->addr.q[0] = __atomic_load_n(&change->prefix[0], __ATOMIC_ACQUIRE);
	prefix->addr.q[1] = __atomic_load_n(&change->prefix[1], __ATOMIC_ACQUIRE);
	/* Ordered after the fields by their acquires. */
	return before == generation && prefix->bits != CHANGE_ALL &&
	       __atomic_load_n(&change->generation, __ATOMIC_RELAXED) == generation;
}

static bool covers(const struct route_prefix *prefix, const struct inaddr *addr)
{
	uint32_t whole = prefix->bits / 8, rest = prefix->bits % 8;

	/* The default route of IPv6 is none of IPv4. */
	if (addr_is_v4(&prefix->addr) != addr_is_v4(addr) ||
	    memcmp(prefix->addr.b, addr->b, whole) != 0)
		return false;
	return !rest || !((prefix->addr.b[whole] ^ addr->b[whole]) >> (8 - rest));
}

uint32_t netlink_still(uint32_t generation, const struct inaddr *to)
{
	uint32_t latest = netlink_generation();
	struct route_prefix prefix;

	if (!generation || latest - generation > NETLINK_CHANGES / 2)
		return 0;
	while (generation != latest) {
		if (++generation == 0) /* it is no number of a generation */
			continue;
		if (!read_change(generation, &prefix) || covers(&prefix, to))
			return 0;
	}
	return latest;
}
