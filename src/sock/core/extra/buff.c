/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/extra/buff.h"

#include <errno.h>

#include "base/delay.h"
#include "base/mem.h"
#include "ring/rings.h"
#include "sock/core/kind.h"

#define BLOCK 64u /* buffers that a ring gets at once: a page */

struct buff *buff_all;
uint32_t buff_given_out;

/* ---- the buffers of a ring (holder) ------------------------------------------------------- */

void buff_store_init(struct buff_store *store, unsigned ring)
{
	store->free = NULL;
	store->ring = ring;
	ck_stack_init(&store->returned);
	store->n_returned = 0;
	store->posted = false;
}

/* Of several threads that map the memory at first use, one does. */
static struct buff *map_all(void)
{
	struct buff *had = NULL, *made = mem_map(BUFF_MAX * sizeof(*made));

	if (!made)
		return NULL;
	/* Pairs with the loads of buff_all: a thread that sees the address may use the memory. */
	if (__atomic_compare_exchange_n(&buff_all, &had, made, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return made;
	mem_unmap(made, BUFF_MAX * sizeof(*made));
	return had;
}

bool buff_store_extend(struct buff_store *store)
{
	/* acquire: pairs with map_all() */
	struct buff *base = __atomic_load_n(&buff_all, __ATOMIC_ACQUIRE);
	uint32_t n = __atomic_load_n(&buff_given_out, __ATOMIC_RELAXED);

	if (!base)
		base = map_all();
	if (!base)
		return false;
	do {
		if (n >= BUFF_MAX)
			return false;
		/* release: pairs with buff_is_at() */
	} while (!__atomic_compare_exchange_n(&buff_given_out, &n, n + BLOCK, true,
					      __ATOMIC_RELEASE, __ATOMIC_RELAXED));
	for (unsigned i = BLOCK; i-- > 0;) {
		struct buff *buff = &base[n + i];

		__atomic_store_n(&buff->refs, 0, __ATOMIC_RELAXED); /* a parent's may be there */
		buff->store = store;
		buff->next = store->free;
		store->free = buff;
	}
	return true;
}

/* ---- back (holder) ------------------------------------------------------------------------ */

/* What buffers were charged to so goes back. */
static void discharge(struct inet_sock *so, uint32_t charge)
{
	if (sock_kind_of(so)->held_freed)
		sock_kind_of(so)->held_freed(so, charge);
}

/* holder: the buffer is free. */
static inline void free_buff(struct buff_store *store, struct buff *buff)
{
	buff->next = store->free;
	store->free = buff;
}

/* An inbox item of the socket's home, if that is not the ring that gave the buffer out. */
static void charged_elsewhere_run(struct ring *ring, struct inbox_item *item)
{
	struct buff *buff = container_of(item, struct buff, item);
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	struct ring *home = __atomic_load_n(&buff->ref.sk->home, __ATOMIC_ACQUIRE);
	bool lives = sock_ref_valid(buff->ref);

	if (lives && home != ring) {
		ring_post(home, item); /* the socket has moved on */
		return;
	}
	if (lives)
		discharge(inet_of(buff->ref.sk), buff->charge);
	pkt_free(buff->pkt);
	buff->pkt = NULL;
	buff_return(buff);
	buff_store_post(buff->store);
}

/* A buffer whose socket lives elsewhere, or has ended. */
static void take_other(struct buff_store *store, struct buff *buff)
{
	struct sock_ref ref = buff->ref;

	if (!buff->pkt || !sock_ref_valid(ref)) {
		if (buff->pkt)
			pkt_free(buff->pkt);
		free_buff(store, buff);
		return;
	}
	buff->item.run = charged_elsewhere_run;
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	ring_post(__atomic_load_n(&ref.sk->home, __ATOMIC_ACQUIRE), &buff->item);
}

/*
 * Frees the first buffers of a list, which one socket at home on the ring is charged for: they are
 * looked at, and discharged, at once.  Returns the rest.
 */
static ck_stack_entry_t *take_alike(struct buff_store *store, ck_stack_entry_t *link)
{
	struct sock_ref ref = container_of(link, struct buff, item.link)->ref;
	struct pkt *pkts = NULL; /* go back to their pools by the way that they know */
	struct buff *free = store->free;
	uint32_t charge = 0;

	while (link) {
		struct buff *buff = container_of(link, struct buff, item.link);
		struct pkt *pkt = buff->pkt;

		if (buff->ref.sk != ref.sk || buff->ref.gen != ref.gen)
			break;
		link = link->next;
		if (pkt) {
			charge += buff->charge;
			pkt->next = pkts;
			pkts = pkt;
		}
		buff->next = free;
		free = buff;
	}
	store->free = free;
	pkt_free_list(pkts);
	if (charge)
		discharge(inet_of(ref.sk), charge);
	return link;
}

void buff_take_returned(struct buff_store *store, struct ring *ring)
{
	ck_stack_entry_t *link, *next;

	ring_assert_held(ring);
	delay_at(DELAY_INBOX_TAKE);
	__atomic_store_n(&store->n_returned, 0, __ATOMIC_RELAXED);
	/* Pairs with buff_return(). */
	link = ck_stack_batch_pop_upmc(&store->returned);
	tsan_acquire(store); /* pairs with buff_return() */
	for (; link; link = next) {
		struct buff *buff = container_of(link, struct buff, item.link);

		if (sock_at_home(buff->ref, ring)) {
			next = take_alike(store, link);
		} else {
			next = link->next;
			take_other(store, buff);
		}
	}
}

static void store_run(struct ring *ring, struct inbox_item *item)
{
	struct buff_store *store = container_of(item, struct buff_store, item);

	/* Pairs with buff_store_post(): what is pushed from here on is posted again. */
	__atomic_store_n(&store->posted, false, __ATOMIC_SEQ_CST);
	buff_take_returned(store, ring);
}

void buff_store_post(struct buff_store *store)
{
	/* Pairs with store_run(): the item is in one inbox at a time. */
	if (__atomic_exchange_n(&store->posted, true, __ATOMIC_SEQ_CST))
		return;
	store->item.run = store_run;
	ring_post(rings_at(store->ring), &store->item);
}

/* ---- references (any) --------------------------------------------------------------------- */

int buff_get(const struct vma_buff_t *pub)
{
	struct buff *buff = buff_at(pub);
	uint32_t refs;

	if (!buff_is_at(pub))
		return -EINVAL;
	refs = __atomic_load_n(&buff->refs, __ATOMIC_RELAXED);
	do {
		if (!refs || refs == INT32_MAX)
			return -EINVAL;
		/* The caller has a reference already, so nothing is ordered by this one. */
	} while (!__atomic_compare_exchange_n(&buff->refs, &refs, refs + 1, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return (int)refs + 1;
}

int buff_put_one_of_many(struct buff *buff)
{
	uint32_t refs = __atomic_load_n(&buff->refs, __ATOMIC_RELAXED);

	do {
		if (!refs)
			return -EINVAL;
		/* Pairs with buff_put(), as that with itself. */
	} while (!__atomic_compare_exchange_n(&buff->refs, &refs, refs - 1, true, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
	if (refs == 1)
		buff_return(buff);
	return (int)refs - 1;
}

void buff_fork_child(void)
{
	buff_given_out = 0;
}
