/* SPDX-License-Identifier: BSD-2-Clause */
/* What the library knows about a socket, for the program: vma_get_verdict(), vma_get_events() of vma.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/stats/recorder_text.h"
#include "base/stats/stats.h"
#include "sock/core/extra/sock_extra.h"
#include "sock/core/kind.h"
#include "sock/core/stats/sock_record.h"

/* ---- verdicts --------------------------------------------------------------------------- */

/* Control lock: the text in the statistics of a socket that was left to the kernel. */
static void tell_why_left(int fd, char *reason, size_t room)
{
	const struct stats_page *page = stats_page();
	struct stat st;

	control_assert_held();
	if (!page || fstat(fd, &st))
		return;
	stats_slots_identify();
	for (unsigned i = 1; i <= page->n_socks; i++) {
		const struct stats_sock *slot = stats_slot(i);

		if (slot->state == STATS_LEFT && slot->fd == fd && slot->inode == st.st_ino)
			snprintf(reason, room, "%s", slot->verdict);
	}
}

/* Control lock. */
static void tell_ours(const struct inet_sock *so, struct vma_verdict_t *v)
{
	const struct ring *home = sock_home(so);
	enum verdict verdict = sock_told_verdict(so);

	control_assert_held();
	snprintf(v->reason, sizeof(v->reason), "%s", verdict_text(verdict));
	v->served = verdict == VERDICT_ACCELERATED ? VMA_SERVED_ACCELERATED
		    : verdict == VERDICT_LOCAL	   ? VMA_SERVED_LOCAL
		    : verdict == VERDICT_UNDECIDED ? VMA_SERVED_UNDECIDED
						   : VMA_SERVED_KERNEL;
	if (home->id >= SOCK_RING_NUMBERS)
		return;
	v->ring = (int)home->id;
	v->ifindex = ring_interface(home);
}

void sock_tell_verdict(struct sock_ref ref, int fd, struct vma_verdict_t *v)
{
	*v = (struct vma_verdict_t){.served = VMA_SERVED_KERNEL, .ring = -1};
	snprintf(v->reason, sizeof(v->reason), "the library never served it");
	if (!control_lock())
		return;
	if (ref.sk && sock_ref_valid(ref))
		tell_ours(inet_of(ref.sk), v);
	else
		tell_why_left(fd, v->reason, sizeof(v->reason));
	control_unlock();
}

/* ---- events ------------------------------------------------------------------------------- */

struct found {
	struct vma_event_t *events;
	unsigned n, room;
	bool no_memory;
};

static void add(struct found *found, const struct recorder *recorder, const struct record *record)
{
	char text[RECORDER_EVENT];
	struct vma_event_t *e;

	if (found->n == found->room) {
		unsigned room = found->room ? 2 * found->room : 64;
		struct vma_event_t *more = mem_alloc(room * sizeof(*more));

		found->no_memory |= !more;
		if (!more)
			return;
		if (found->n)
			memcpy(more, found->events, found->n * sizeof(*more));
		mem_free(found->events);
		found->events = more;
		found->room = room;
	}
	e = &found->events[found->n];
	*e = (struct vma_event_t){
		.reserved = found->n++, /* for by_time() */
		.when = recorder->made_at + record_since(recorder, record),
		.argument = (uint32_t)(record->what >> 32),
	};
	record_word(record_event(record), e->name);
	record_text(recorder, record, text);
	snprintf(e->text, sizeof(e->text), "%.*s", (int)sizeof(e->text) - 1, text);
}

_Static_assert(sizeof(((struct vma_event_t *)NULL)->name) == RECORDER_NAME, "a word fits");

static int by_time(const void *a, const void *b)
{
	const struct vma_event_t *x = a, *y = b;

	if (x->when != y->when)
		return x->when < y->when ? -1 : 1;
	return x->reserved < y->reserved ? -1 : 1;
}

/* The last ones, in order; *events is the caller's. */
static int last_of(struct found *found, struct vma_event_t **events, unsigned count)
{
	unsigned more = found->n > count ? found->n - count : 0;

	if (found->no_memory) {
		mem_free(found->events);
		return -ENOMEM;
	}
	if (found->n)
		qsort(found->events, found->n, sizeof(*found->events), by_time);
	for (unsigned i = 0; i < found->n; i++)
		found->events[i].reserved = 0;
	if (more)
		memmove(found->events, found->events + more, count * sizeof(*found->events));
	*events = found->events;
	return (int)(found->n - more);
}

int sock_last_events(struct sock_ref ref, struct vma_event_t **events, unsigned count)
{
	uint32_t number = sock_record_id(inet_of(ref.sk));
	const struct recorder *rec = recorder();
	struct record *records;
	struct found found = {.n = 0};

	*events = NULL;
	if (!rec)
		return 0;
	records = mem_alloc(RECORDER_RECORDS * sizeof(*records));
	if (!records)
		return -ENOMEM;
	for (unsigned area = 0; area < RECORDER_AREAS; area++) {
		uint64_t from = 0;
		unsigned n = 0;

		if (__atomic_load_n(&rec->areas[area].used, __ATOMIC_RELAXED))
			n = recorder_read(&rec->areas[area], &from, records);
		for (unsigned i = 0; i < n; i++) {
			if (record_event(&records[i]) != RECORD_NONE &&
			    record_sock(&records[i]) == number)
				add(&found, rec, &records[i]);
		}
	}
	mem_free(records);
	return last_of(&found, events, count);
}
