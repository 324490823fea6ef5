/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma/trace/events.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

bool events_init(struct events *events, const struct events_filter *filter)
{
	*events = (struct events){.filter = *filter};
	events->list =
		calloc((size_t)RECORDER_AREAS * (RECORDER_RECORDS + 1), sizeof(*events->list));
	return events->list;
}

void events_fini(struct events *events)
{
	free(events->list);
	events->list = NULL;
}

static bool is_wanted(const struct events_filter *filter, const struct recorder *recorder,
		      uint32_t sock)
{
	struct recorder_who who;

	if (filter->socket && sock != filter->socket)
		return false;
	return filter->fd < 0 || (recorder_who(recorder, sock, &who) && who.fd == filter->fd);
}

/* Is a drop for a socket that is wanted?  A record of it has ports only. */
static bool drop_is_wanted(const struct events_filter *filter, const struct recorder *recorder,
			   uint64_t what)
{
	uint16_t local = htons((uint16_t)what), remote = htons((uint16_t)(what >> 16));

	for (unsigned i = 0; i < RECORDER_SOCKS; i++) {
		const struct recorder_sock *of = &recorder->socks[i];
		uint32_t sock = (uint32_t)(of->id >> 32);

		if (sock && (uint16_t)(of->local >> 16) == local &&
		    ((uint16_t)(of->remote >> 16) == remote || !of->remote) &&
		    is_wanted(filter, recorder, sock))
			return true;
	}
	return false;
}

static bool shows(const struct events *events, const struct recorder *recorder, unsigned area,
		  const struct record *record)
{
	const struct events_filter *filter = &events->filter;
	enum record_event event = record_event(record);

	if (event == RECORD_NONE)
		return false;
	if (area == RECORDER_SLEEPS && filter->ring >= 0 &&
	    record->what >> 32 != (uint32_t)filter->ring)
		return false;
	if (!filter->socket && filter->fd < 0)
		return true;
	return event == RECORD_DROP ? drop_is_wanted(filter, recorder, record->what)
				    : is_wanted(filter, recorder, record_sock(record));
}

static void add(struct events *events, const struct recorder *recorder, unsigned area,
		uint64_t number, const struct record *record, uint32_t times)
{
	struct event *event = &events->list[events->n];

	if (!shows(events, recorder, area, record))
		return;
	*event = (struct event){.record = *record,
				.since = record_since(recorder, record),
				.area = area,
				.number = number,
				.times = times};
	/* In an area the order is that of the records, whatever the clock says. */
	if (events->n && event[-1].area == area && event[-1].since > event->since)
		event->since = event[-1].since;
	events->n++;
}

/* The series of drops that was shown last has become longer. */
static void add_to_series(struct events *events, const struct recorder *recorder, unsigned area)
{
	struct record *last = &events->last[area], now[1];
	const struct record *at =
		&recorder->areas[area].records[(events->from[area] - 1) % RECORDER_RECORDS];
	uint32_t before = record_times(last);

	if (record_event(last) != RECORD_DROP)
		return;
	now->when = __atomic_load_n(&at->when, __ATOMIC_RELAXED);
	now->what = __atomic_load_n(&at->what, __ATOMIC_RELAXED);
	if (now->when != last->when || record_times(now) <= before)
		return;
	*last = *now;
	add(events, recorder, area, events->from[area] - 1, now, record_times(now) - before);
}

static void read_area(struct events *events, const struct recorder *recorder, unsigned area)
{
	static struct record records[RECORDER_RECORDS];
	uint64_t first = events->from[area];
	unsigned n;

	if (!__atomic_load_n(&recorder->areas[area].used, __ATOMIC_RELAXED))
		return; /* to look at it would take memory */
	if (first)
		add_to_series(events, recorder, area);
	n = recorder_read(&recorder->areas[area], &first, records);
	if (events->from[area] && first > events->from[area])
		events->lost += first - events->from[area];
	for (unsigned i = 0; i < n; i++)
		add(events, recorder, area, first + i, &records[i], record_times(&records[i]));
	if (n)
		events->last[area] = records[n - 1];
	events->from[area] = first + n;
}

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->since != y->since)
		return x->since > y->since ? 1 : -1;
	if (x->area != y->area)
		return x->area > y->area ? 1 : -1;
	return (x->number > y->number) - (x->number < y->number);
}

void events_read(struct events *events, const struct recorder *recorder)
{
	const struct events_filter *filter = &events->filter;

	events->n = 0;
	events->lost = 0;
	for (unsigned area = 0; area < RECORDER_AREAS; area++) {
		if (area == RECORDER_SLEEPS ? !filter->sleeps
					    : filter->ring >= 0 && area != (unsigned)filter->ring)
			continue;
		read_area(events, recorder, area);
	}
	qsort(events->list, events->n, sizeof(*events->list), by_time);
}
