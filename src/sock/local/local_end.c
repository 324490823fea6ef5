/* SPDX-License-Identifier: BSD-2-Clause */
/* The ends of a link: who has which number, and when it is free again. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "sock/local/local_link_internal.h"
#include "sock/local/local_sock.h"

#define MOVED 0x80000000u /* in local_link.begun: the end of this process moved away */

/* A larger copy of the n entries that begin at `first` of a ring of `size`. */
static uint32_t *larger(const uint32_t *from, uint32_t size, uint32_t first, uint32_t n,
			uint32_t wanted)
{
	uint32_t *to = mem_zalloc(wanted * sizeof(*to));

	for (uint32_t i = 0; to && i < n; i++)
		to[i] = from[(first + i) % size];
	return to;
}

static bool grow(struct local_link *link, uint32_t number)
{
	uint32_t n = number + 1 < LOCAL_CHUNK ? LOCAL_CHUNK : 2 * (number + 1), old = link->n_ends;
	struct local_end **ends;
	uint32_t *begun, *left;

	if (number < old)
		return true;
	n = n > NOTICE_CONNS ? NOTICE_CONNS : n;
	ends = mem_zalloc(n * sizeof(struct local_end *));
	begun = larger(link->begun, old, 0, old, n);
	left = larger(link->left, old, link->left_head, link->n_left, n);
	if (!ends || !begun || !left) {
		mem_free(ends);
		mem_free(begun);
		mem_free(left);
		return false;
	}
	if (old)
		memcpy(ends, link->ends, old * sizeof(struct local_end *));
	mem_free(link->ends);
	mem_free(link->begun);
	mem_free(link->left);
	link->ends = ends;
	link->begun = begun;
	link->left = left;
	link->left_head = 0;
	link->n_ends = n;
	return true;
}

static void enter(struct local_link *link, struct local_end *end, uint32_t number)
{
	link->ends[number] = end;
	link->used++;
	end->link = link;
	end->number = number;
	list_init(&end->wants);
}

/* Has an end that moved said that it is gone? */
static bool is_gone(const struct local_link *link, uint32_t number, unsigned side)
{
	const struct segment *chunk = link->chunks[number / LOCAL_CHUNK];
	const struct local_shared *shared =
		chunk && chunk->base ? (const void *)local_slot(chunk, number) : NULL;

	/* acquire: pairs with local_move_end(): it does not write there any more */
	return shared && __atomic_load_n(&shared->side[side].gone, __ATOMIC_ACQUIRE);
}

/*
 * Does no end use the number any more?  The peer has left it as often as it was begun, or its end
 * moved, and is gone; so is ours, if it moved.
 */
static bool is_free(struct local_link *link, uint32_t number)
{
	uint32_t begun = link->begun[number];
	/* acquire: pairs with local_end_leave() of the peer, which does not write there any more */
	uint32_t left = __atomic_load_n(&link->shared->left[number], __ATOMIC_ACQUIRE);

	if (__builtin_expect(left == begun, 1))
		return true;
	if ((begun & MOVED && !is_gone(link, number, LOCAL_INITIATOR)) ||
	    (((left ^ begun) & ~MOVED) && !is_gone(link, number, LOCAL_RESPONDER)))
		return false;
	link->begun[number] = left & ~MOVED; /* a responder that moved does not count */
	return true;
}

#define LOOKS 4u /* at numbers that this process has left; the peer has left most of them */

/* A number that both sides have left; NOTICE_CONNS: none was found. */
static uint32_t reuse(struct local_link *link)
{
	for (uint32_t i = 0; i < LOOKS && i < link->n_left; i++) {
		uint32_t number = link->left[link->left_head];

		link->left_head = (link->left_head + 1) % link->n_ends;
		if (is_free(link, number)) {
			link->n_left--;
			return number;
		}
		link->left[(link->left_head + link->n_left - 1) % link->n_ends] = number;
	}
	return NOTICE_CONNS;
}

int local_end_begin(struct local_link *link, struct local_end *end)
{
	uint32_t number;

	ring_assert_held(local.ring);
	if (link->dead)
		return -EPIPE;
	number = reuse(link);
	if (number == NOTICE_CONNS) {
		number = link->next;
		if (number == NOTICE_CONNS)
			return -EUSERS;
		if (!grow(link, number))
			return -ENOMEM;
		link->next++;
	}
	link->begun[number] = (link->begun[number] + 1) & ~MOVED;
	enter(link, end, number);
	return 0;
}

int local_end_begin_at(struct local_link *link, struct local_end *end, uint32_t number)
{
	ring_assert_held(local.ring);
	if (link->initiator || link->dead || number >= NOTICE_CONNS)
		return -EPROTO;
	if (!grow(link, number))
		return -ENOMEM;
	if (link->ends[number])
		return -EPROTO;
	enter(link, end, number);
	return 0;
}

/* moved: the end goes on in another process, and the number is free when it is gone there. */
static void leave(struct local_end *end, bool moved)
{
	struct local_link *link = end->link;
	uint32_t number = end->number, *left;

	ring_assert_held(local.ring);
	if (!link)
		return;
	link->ends[number] = NULL;
	link->used--;
	end->link = NULL;
	if (link->initiator) {
		if (moved)
			link->begun[number] |= MOVED;
		link->left[(link->left_head + link->n_left++) % link->n_ends] = number;
	} else if (!moved) {
		left = &link->shared->left[number];
		/* release: pairs with is_free() */
		__atomic_store_n(left, (*left + 1) & ~MOVED, __ATOMIC_RELEASE);
	}
	if (link->dead && !link->used)
		__atomic_store_n(&local.to_do, true, __ATOMIC_RELAXED);
}

void local_end_leave(struct local_end *end)
{
	leave(end, false);
}

void local_end_move_away(struct local_end *end)
{
	leave(end, true);
}

struct local_end *local_end_at(const struct local_link *link, uint32_t number)
{
	return link->initiator && number < link->n_ends ? link->ends[number] : NULL;
}

void local_end_post(struct local_end *end)
{
	if (__builtin_expect(end->link != NULL, 1)) /* else its peer is gone */
		notice_post(&end->link->out, end->number);
}

void local_end_leave_to(struct local_end *from, struct local_end *to)
{
	ring_assert_held(local.ring);
	from->link->ends[from->number] = to;
	to->link = from->link;
	to->number = from->number;
	list_init(&to->wants);
	from->link = NULL;
}

void local_end_wants(struct local_end *end, bool wants)
{
	struct local_link *link = end->link;

	ring_assert_held(local.ring);
	if (!link || wants == list_linked(&end->wants))
		return;
	if (wants)
		list_push_back(&link->wanting, &end->wants);
	else
		list_remove(&end->wants);
	link->lane.looks = !list_empty(&link->wanting);
}
