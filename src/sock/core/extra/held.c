/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/extra/held.h"

#include <errno.h>

#include "base/delay.h"
#include "base/mem.h"
#include "base/user.h"
#include "sock/core/kind.h"

#define BLOCK 256u /* slots that are allocated at once */

struct held {
	struct inbox_item item; /* first; of whoever made the generation even */
	uint32_t gen;		/* any, atomic; odd: in use */
	uint32_t index;		/* of the slot; set once */
	uint32_t next;		/* any, atomic; free: index of the next free slot plus 1, 0: none */
	/* written before gen becomes odd; atomic, because held_free() reads them before it knows */
	struct sock *sk;
	uint32_t sock_gen;
	/* whoever has the slot */
	uint32_t charge;
	struct pkt *pkt;
};

static struct held *blocks[HELD_MAX / BLOCK]; /* any, atomic; set once */
static uint32_t n_slots;		      /* any, atomic: numbers given out; grows only */
static uint64_t free_slots; /* any, atomic: index of the first one plus 1, and a tag above 32 bits */
static unsigned in_use;	    /* any, atomic */

/* ---- free slots ------------------------------------------------------------------------- */

static struct held *slot_at(uint32_t index)
{
	/* acquire: pairs with new_block() */
	struct held *block = __atomic_load_n(&blocks[index / BLOCK], __ATOMIC_ACQUIRE);

	return block ? &block[index % BLOCK] : NULL;
}

static void push_free(struct held *held)
{
	uint64_t head = __atomic_load_n(&free_slots, __ATOMIC_RELAXED), with;

	do {
		__atomic_store_n(&held->next, (uint32_t)head, __ATOMIC_RELAXED);
		with = ((head >> 32) + 1) << 32 | (held->index + 1);
		/* release: pairs with pop_free(), which reads ->next */
	} while (!__atomic_compare_exchange_n(&free_slots, &head, with, true, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
}

/* The tag changes with each push and pop: a slot that came back meanwhile is noticed. */
static struct held *pop_free(void)
{
	/* acquire: pairs with push_free() */
	uint64_t head = __atomic_load_n(&free_slots, __ATOMIC_ACQUIRE), with;
	struct held *held;

	do {
		if (!(uint32_t)head)
			return NULL;
		held = slot_at((uint32_t)head - 1);
		with = ((head >> 32) + 1) << 32 | __atomic_load_n(&held->next, __ATOMIC_RELAXED);
		/* acquire: pairs with push_free() */
	} while (!__atomic_compare_exchange_n(&free_slots, &head, with, true, __ATOMIC_ACQUIRE,
					      __ATOMIC_ACQUIRE));
	return held;
}

/* Makes the block of slot number at.  Of several threads one does. */
static bool new_block(uint32_t at)
{
	struct held *block = mem_zalloc(BLOCK * sizeof(*block)), *none = NULL;

	if (!block)
		return false;
	for (uint32_t i = 0; i < BLOCK; i++)
		block[i].index = at / BLOCK * BLOCK + i;
	/* release: pairs with slot_at() */
	if (!__atomic_compare_exchange_n(&blocks[at / BLOCK], &none, block, false, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		mem_free(block);
	return true;
}

static struct held *new_slot(void)
{
	uint32_t n = __atomic_load_n(&n_slots, __ATOMIC_RELAXED);

	do {
		if (n >= HELD_MAX || (!slot_at(n) && !new_block(n)))
			return NULL;
	} while (!__atomic_compare_exchange_n(&n_slots, &n, n + 1, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return slot_at(n);
}

struct held *held_new(void)
{
	struct held *held = pop_free();

	return held ? held : new_slot();
}

void held_cancel(struct held *held)
{
	push_free(held);
}

unsigned held_count(void)
{
	return __atomic_load_n(&in_use, __ATOMIC_RELAXED);
}

void held_fork_child(void)
{
	memset(blocks, 0, sizeof(blocks)); /* other threads of the parent may have been in them */
	n_slots = 0;
	free_slots = 0;
	in_use = 0;
}

/* ---- numbers ---------------------------------------------------------------------------- */

void *held_id(const struct held *held)
{
	uint32_t gen = __atomic_load_n(&held->gen, __ATOMIC_RELAXED) | 1;

	return (void *)(uintptr_t)((uint64_t)gen << 32 | held->index);
}

void held_fill(struct held *held, struct sock_ref ref, struct pkt *pkt, uint32_t charge)
{
	held->pkt = pkt;
	held->charge = charge;
	__atomic_fetch_add(&in_use, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&held->sk, ref.sk, __ATOMIC_RELAXED);
	__atomic_store_n(&held->sock_gen, ref.gen, __ATOMIC_RELAXED);
	/* release: pairs with held_free(), which reads what was stored here */
	__atomic_store_n(&held->gen, held->gen | 1, __ATOMIC_RELEASE);
}

bool held_store(uint8_t *to, size_t n, struct held_piece piece)
{
	struct held_record first = {.n_packet_num = 1, .packet = piece};
	size_t count = n + 1;

	if (n == 0)
		return user_copy(to, &first, sizeof(first));
	return user_copy(to + sizeof(first) + (n - 1) * sizeof(piece), &piece, sizeof(piece)) &&
	       user_copy(to, &count, sizeof(count));
}

/* The packet returns: to its ring by the way that the pool knows, what it was charged to so. */
static void give_back(struct held *held, struct inet_sock *so)
{
	if (so && sock_kind_of(so)->held_freed)
		sock_kind_of(so)->held_freed(so, held->charge);
	pkt_free(held->pkt);
	__atomic_fetch_sub(&in_use, 1, __ATOMIC_RELAXED);
	push_free(held);
}

/* An inbox item of the socket's home. */
static void returned_run(struct ring *ring, struct inbox_item *item)
{
	struct held *held = container_of(item, struct held, item);
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	struct ring *home = __atomic_load_n(&held->sk->home, __ATOMIC_ACQUIRE);
	/* Pairs with the end of references in core/sock.c. */
	bool lives = __atomic_load_n(&held->sk->gen, __ATOMIC_ACQUIRE) == held->sock_gen;

	if (lives && home != ring)
		ring_post(home, item); /* the socket has moved on */
	else
		give_back(held, lives ? inet_of(held->sk) : NULL);
}

int held_free(void *id, struct sock_ref ref)
{
	uint32_t index = (uint32_t)(uintptr_t)id, gen = (uint32_t)((uintptr_t)id >> 32);
	struct held *held;
	struct sock_ref owner;

	if (index >= HELD_MAX || !(gen & 1))
		return -ENOENT;
	held = slot_at(index);
	/* acquire: pairs with held_fill() */
	if (!held || __atomic_load_n(&held->gen, __ATOMIC_ACQUIRE) != gen)
		return -ENOENT;
	owner.sk = __atomic_load_n(&held->sk, __ATOMIC_RELAXED);
	owner.gen = __atomic_load_n(&held->sock_gen, __ATOMIC_RELAXED);
	if ((owner.sk != ref.sk || owner.gen != ref.gen) && sock_ref_valid(owner))
		return -ENOENT;
	delay_at(DELAY_INBOX_POST);
	/* acquire: pairs with held_fill(); one thread gets the slot, and gen names it no more */
	if (!__atomic_compare_exchange_n(&held->gen, &gen, gen + 1, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return -ENOENT;
	held->item.run = returned_run;
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	ring_post(__atomic_load_n(&owner.sk->home, __ATOMIC_ACQUIRE), &held->item);
	return 0;
}
