/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ways to post to a ring: the inbox (CK's stack, pushed one by one and taken as a
 * whole) and CK's ring with its multi-producer enqueue.
 *
 *	inbox_bench CPU,CPU POSTERS
 *
 * Prints the time from item to item at the reader in ns, for each of the two.  The reader has
 * the first processor and shares it with every second poster.  A poster yields while all its
 * 256 items are in transit.
 */
#include <ck_ring.h>

#include "base/mem.h"
#include "ring/inbox.h"
#include "tools/bench/crew.h"

#define SLICES 15
#define BATCH 64
#define ITEMS 256
#define RING_SIZE 4096 /* never full: it holds the items of 15 posters */

struct message {
	struct inbox_item item; /* first */
	int free;		/* atomic */
} __attribute__((aligned(64)));

static struct {
	_Alignas(64) struct inbox inbox;
	_Alignas(64) ck_ring_t ring;
	ck_ring_buffer_t buffer[RING_SIZE];
	_Alignas(64) struct message messages[CREW_MAX][ITEMS];
	unsigned next[CREW_MAX][16]; /* one cache line each */
	bool by_ring;
} shared;

_Static_assert((CREW_MAX - 1) * ITEMS < RING_SIZE, "the ring is never full");

static void post(struct worker *worker)
{
	unsigned *next = &shared.next[worker->number][0];
	struct message *message = &shared.messages[worker->number][*next];

	while (!__atomic_load_n(&message->free, __ATOMIC_ACQUIRE)) {
		if (clock_now() > worker->crew->begin + CREW_SLICE)
			return; /* the reader has ended */
		sched_yield();
	}
	message->free = 0;
	*next = (*next + 1) % ITEMS;
	if (!shared.by_ring)
		inbox_post(&shared.inbox, &message->item);
	else if (!ck_ring_enqueue_mpsc(&shared.ring, shared.buffer, message))
		abort();
}

static void run(struct message *message)
{
	__atomic_store_n(&message->free, 1, __ATOMIC_RELEASE);
}

/* Takes everything; returns the number. */
static unsigned take_all(void)
{
	unsigned n = 0;

	if (shared.by_ring) {
		void *message;

		while (n < RING_SIZE &&
		       ck_ring_dequeue_mpsc(&shared.ring, shared.buffer, &message)) {
			run(message);
			n++;
		}
		return n;
	}
	if (inbox_empty(&shared.inbox))
		return 0;
	for (struct inbox_item *item = inbox_take(&shared.inbox), *next; item; item = next) {
		next = (struct inbox_item *)(void *)item->link.next;
		run((struct message *)(void *)item);
		n++;
	}
	return n;
}

static unsigned work(struct worker *worker)
{
	unsigned n;

	if (worker->number == 0) {
		n = take_all();
		if (!n)
			sched_yield(); /* a poster may need the processor */
		return n;
	}
	for (unsigned i = 0; i < BATCH; i++)
		post(worker);
	return 0;
}

int main(int argc, char **argv)
{
	struct crew crew = {.work = work};
	double took[2][SLICES];
	int cpus[2], posters;

	if (argc != 3)
		return 2;
	crew_parse_cpus(argv[1], cpus);
	posters = atoi(argv[2]);
	if (posters < 1 || posters >= CREW_MAX)
		return 2;
	crew.size = (unsigned)posters + 1;
	clock_init();
	inbox_init(&shared.inbox);
	ck_ring_init(&shared.ring, RING_SIZE);
	for (unsigned i = 0; i < CREW_MAX; i++) {
		for (unsigned l = 0; l < ITEMS; l++)
			shared.messages[i][l].free = 1;
	}
	crew_start(&crew, cpus, false);
	for (unsigned i = 0; i < 2 * SLICES; i++) {
		shared.by_ring = i % 2;
		crew_slice(&crew, crew.size);
		took[i % 2][i / 2] = 1 / crew_rate(&crew, 1);
		take_all();
	}
	crew_end(&crew);
	printf("stack=%.1f ring=%.1f\n", crew_median(took[0], SLICES),
	       crew_median(took[1], SLICES));
	return 0;
}
