/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/stats/capture.h"

#include <string.h>

_Static_assert(CAPTURE_SNAP_MAX + 2 * sizeof(struct capture_record) < 1u << CAPTURE_SHIFT_MIN,
	       "the longest record fits into the smallest lane");

void capture_writer_init(struct capture_writer *w, struct capture_lane *lane, uint8_t *data,
			 uint64_t size, uint32_t snap)
{
	*w = (struct capture_writer){.lane = lane, .data = data, .size = size, .snap = snap};
}

/* Is there room for n more bytes?  tail may be anything: then there is none, or too much. */
static bool has_room(const struct capture_writer *w, uint64_t n)
{
	/* Acquire: pairs with the reader's store, which follows its copy of what is overwritten. */
	uint64_t tail = __atomic_load_n(&w->lane->tail, __ATOMIC_ACQUIRE);
	uint64_t used = w->next - tail;

	return used <= w->size && n <= w->size - used;
}

void capture_put(struct capture_writer *w, const uint8_t *frame, uint32_t len, uint32_t flags,
		 uint64_t when)
{
	struct capture_record r = {
		.flags = flags, .len = len, .kept = len < w->snap ? len : w->snap, .when = when};
	uint64_t at = w->next & (w->size - 1), left = w->size - at, pad;

	r.size = (uint32_t)(sizeof(r) + r.kept + 7) & ~7u;
	pad = left < r.size ? left : 0;
	w->frames++;
	if (!has_room(w, pad + r.size)) {
		w->drops++;
		return;
	}
	if (pad) {
		/* A reader knows that there is no record where none fits. */
		if (pad >= sizeof(r))
			memcpy(w->data + at,
			       &(struct capture_record){.size = (uint32_t)pad,
							.flags = CAPTURE_PAD},
			       sizeof(r));
		w->next += pad;
		at = 0;
	}
	memcpy(w->data + at, &r, sizeof(r));
	memcpy(w->data + at + sizeof(r), frame, r.kept);
	w->next += r.size;
}

void capture_publish(struct capture_writer *w)
{
	__atomic_store_n(&w->lane->frames, w->frames, __ATOMIC_RELAXED);
	__atomic_store_n(&w->lane->drops, w->drops, __ATOMIC_RELAXED);
	w->head = w->next;
	/* Release: pairs with the reader's load, which then sees the records. */
	__atomic_store_n(&w->lane->head, w->head, __ATOMIC_RELEASE);
}

void capture_take_back(struct capture_writer *w)
{
	w->frames -= w->next != w->head;
	w->next = w->head;
}
