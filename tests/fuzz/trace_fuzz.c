/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flight recorder: whatever is in it, `vma trace` ends, and reads nothing beside it.
 *
 * Input	changes to a recorder in order: four bytes of offset, one of length, and so many bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/vma/trace/segment.h"
#include "tools/vma/trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PART (1u << 17) /* of the recorder that changes hit: its header, names, and an area */

static struct recorder *blank; /* as a process makes it */

static void make_blank(void)
{
	struct recorder *r = blank = aligned_alloc(64, sizeof(*r)); /* a byte too far is seen */

	if (!r || !freopen("/dev/null", "w", stdout))
		abort();
	memset(r, 0, sizeof(*r));
	r->magic = RECORDER_MAGIC;
	r->version = RECORDER_VERSION;
	r->size = sizeof(*r);
	r->areas[0].used = 1;
	r->areas[RECORDER_CALLS].used = 1;
	r->areas[RECORDER_SLEEPS].used = 1;
	r->areas[0].head = RECORD_COUNT;
	for (unsigned i = 0; i < RECORD_COUNT; i++)
		r->areas[0].records[i] = (struct record){record_when(i, (enum record_event)i), i};
	r->socks[1].id = 1ull << 32 | 5;
}

/* Where the bytes of a change go: half of them to the first area. */
static size_t place_of(uint32_t at)
{
	size_t area = offsetof(struct recorder, areas);

	return at & 1 ? area + at / 2 % (sizeof(struct recorder) - area) : at / 2 % PART;
}

static void change(struct recorder *r, const uint8_t *data, size_t size)
{
	while (size >= 5) {
		uint32_t at;
		size_t n = data[4], to;

		memcpy(&at, data, sizeof(at));
		data += 5;
		size -= 5;
		if (n > size)
			n = size;
		to = place_of(at);
		memcpy((char *)r + to, data, n < sizeof(*r) - to ? n : sizeof(*r) - to);
		data += n;
		size -= n;
	}
}

static void show(const struct recorder *r, struct events *events)
{
	char line[RECORDER_LINE];

	events_read(events, r);
	for (unsigned i = 0; i < events->n; i++) {
		trace_show(r, &events->list[i], i & 1);
		(void)recorder_line(r, events->list[i].area, &events->list[i].record, line);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct events_filter filters[] = {{.ring = -1, .fd = -1, .sleeps = true},
						{.ring = -1, .fd = 5},
						{.ring = 0, .fd = -1}};
	char why[SEGMENT_WHY];

	if (!blank)
		make_blank();
	for (unsigned i = 0; i < sizeof(filters) / sizeof(*filters); i++) {
		struct recorder *r = aligned_alloc(64, sizeof(*r));
		struct events events;

		if (!r || !events_init(&events, &filters[i]))
			abort();
		memcpy(r, blank, sizeof(*r));
		show(r, &events);
		change(r, data, size);
		(void)segment_check(r, sizeof(*r), why);
		/* It may change after it was checked; who follows reads on. */
		show(r, &events);
		events_fini(&events);
		free(r);
	}
	return 0;
}
