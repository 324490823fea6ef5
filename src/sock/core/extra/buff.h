/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers of socketxtreme: packets that the program has, each with a struct vma_buff_t and a count of
 * references.  The program names them by address; an address is checked before it is followed.
 *
 * Role		buff_new(): the holder of the ring.  buff_get(), buff_put(): any.
 * Lifetime	a buffer is in use from buff_new() until its last reference was put; then its packet
 *		goes back by the ring that gave it out, in whose store the buffer is free again.  Its
 *		memory is used for buffers only.  A packet may outlive its socket and the thread that
 *		received it.
 * Ordering	what threads did with a buffer happens before it is free: puts are ordered, and the
 *		holder takes buffers from ->returned.
 * Progress	lock-free.  Returned buffers wait for the next poll of their ring; when they are many,
 *		or after some hundred milliseconds, an item posted to the ring takes them.
 */
#ifndef SOCK_CORE_EXTRA_BUFF_H
#define SOCK_CORE_EXTRA_BUFF_H

#include <ck_stack.h>
#include <errno.h>
#include <mellanox/vma_extra.h>

#include "sock/core/inet_sock.h"

#define BUFF_MAX 65536u /* in the process */

struct buff {
	union {
		struct vma_buff_t pub;	/* what the program sees */
		struct inbox_item item; /* without a reference; the link of ->returned, too */
		struct buff *next;	/* free */
	};
	struct pkt *pkt; /* NULL: it went back already */
	/* set by buff_new() */
	struct sock_ref ref; /* the socket that it is charged to */
	struct buff_store *store;
	uint32_t charge;
	uint32_t refs; /* any, atomic; 0: free, or about to be */
};

#define BUFF_SHIFT 6
_Static_assert(sizeof(struct buff) == 1u << BUFF_SHIFT, "one cache line");

/* The buffers of a ring. */
struct buff_store {
	struct buff *free; /* holder */
	unsigned ring;	   /* its number; set once */
	/* any, atomic */
	ck_stack_t returned;	/* by buff.item.link */
	unsigned n_returned;	/* about so many are there */
	bool posted;		/* ->item is in the ring's inbox */
	struct inbox_item item; /* takes what was returned */
};

void buff_store_init(struct buff_store *store, unsigned ring);

/* holder: makes some more free.  False: there are BUFF_MAX, or no memory. */
bool buff_store_extend(struct buff_store *store);

/*
 * holder: the buffer, taken out of the store's free ones, has pkt of the socket ref and one reference; the
 * program has pkt from now on.  charge: what sock_kind.held_freed() gets when it is back.
 */
static inline void buff_fill(struct buff *buff, struct sock_ref ref, struct pkt *pkt,
			     uint32_t charge)
{
	uint8_t *payload = pkt_payload(pkt);
	uint16_t len = pkt->len;

	buff->pub.next = NULL;
	buff->pub.payload = payload;
	buff->pub.len = len;
	buff->pkt = pkt;
	buff->ref = ref;
	buff->charge = charge;
	/* release: pairs with buff_put() of another thread, which reads what was stored here */
	__atomic_store_n(&buff->refs, 1, __ATOMIC_RELEASE);
}

/* holder: takes a buffer of the ring and does the above.  NULL: as buff_store_extend(). */
static inline struct buff *buff_new(struct buff_store *store, struct sock_ref ref, struct pkt *pkt,
				    uint32_t charge)
{
	struct buff *buff = store->free;

	if (__builtin_expect(!buff, 0)) {
		if (!buff_store_extend(store))
			return NULL;
		buff = store->free;
	}
	store->free = buff->next;
	buff_fill(buff, ref, pkt, charge);
	return buff;
}

/* holder: what the buffer of the last buff_new() is charged with, which was not known then. */
static inline void buff_charge(struct vma_buff_t *pub, uint32_t charge)
{
	container_of(pub, struct buff, pub)->charge = charge;
}

/* holder: frees what was returned. */
void buff_take_returned(struct buff_store *store, struct ring *ring);
static inline bool buff_has_returned(const struct buff_store *store)
{
	return ck_pr_load_ptr(&store->returned.head) != NULL;
}

/* any: posts an item that frees what was returned, unless there is one. */
void buff_store_post(struct buff_store *store);

#define BUFF_MANY_RETURNED 32u /* so many do not wait for the next poll */

/* any, atomic; BUFF_MAX of them, mapped once; how many belong to a ring.  Hidden: one load each. */
extern struct buff *buff_all __attribute__((visibility("hidden")));
extern uint32_t buff_given_out __attribute__((visibility("hidden")));

/* any: does the program name a buffer by this address? */
static inline bool buff_is_at(const struct vma_buff_t *pub)
{
	/* acquire: pairs with buff_store_extend() */
	uintptr_t n = __atomic_load_n(&buff_given_out, __ATOMIC_ACQUIRE);
	uintptr_t off = (uintptr_t)pub - (uintptr_t)__atomic_load_n(&buff_all, __ATOMIC_RELAXED);

	/* Rotated: in the middle of a buffer it is a huge number. */
	return (off >> BUFF_SHIFT | off << (64 - BUFF_SHIFT)) < n;
}

/* any: the buffer at such an address. */
static inline struct buff *buff_at(const struct vma_buff_t *pub)
{
	return (struct buff *)(uintptr_t)pub;
}

/* any: nobody has a reference to the buffer any more. */
static inline void buff_return(struct buff *buff)
{
	struct buff_store *store = buff->store;
	unsigned n;

	delay_at(DELAY_INBOX_POST);
	tsan_release(store); /* pairs with buff_take_returned() */
	ck_stack_push_upmc(&store->returned, &buff->item.link);
	/* Another thread's count may be lost: the number need not be exact. */
	n = __atomic_load_n(&store->n_returned, __ATOMIC_RELAXED) + 1;
	__atomic_store_n(&store->n_returned, n, __ATOMIC_RELAXED);
	if (__builtin_expect(n >= BUFF_MANY_RETURNED, 0))
		buff_store_post(store);
}

/* any: one reference more, or less; how many there are now.  -EINVAL: no buffer is there. */
int buff_get(const struct vma_buff_t *pub);
int buff_put_one_of_many(struct buff *buff);
static inline int buff_put(const struct vma_buff_t *pub)
{
	struct buff *buff = buff_at(pub);
	uint32_t refs = 1;

	if (__builtin_expect(!buff_is_at(pub), 0))
		return -EINVAL;
	/* Pairs with itself and with buff_new(): the last one sees what all others did. */
	if (__builtin_expect(!__atomic_compare_exchange_n(&buff->refs, &refs, 0, false,
							  __ATOMIC_ACQ_REL, __ATOMIC_RELAXED),
			     0))
		return buff_put_one_of_many(buff);
	buff_return(buff);
	return 0;
}

/* In a forked child: the buffers are the parent's, and their addresses name none. */
void buff_fork_child(void);

#endif
