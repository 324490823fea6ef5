/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/tcp_flight.h"

#include <assert.h>
#include <string.h>

#include "net/tcp/tcp_internal.h"

/* ---- memory ----------------------------------------------------------------------- */

static struct tcp_flight *alloc_flight(const struct tcp_conn *c, unsigned max)
{
	struct tcp_flight *f = c->ops->alloc(sizeof(*f) + max * sizeof(f->r[0]));

	if (f) {
		memset(f, 0, sizeof(*f));
		f->max = (uint16_t)max;
	}
	return f;
}

bool tcp_flight_create(struct tcp_conn *c)
{
	assert(!c->flight);
	c->flight = alloc_flight(c, TCP_FLIGHT_RUNS);
	if (!c->flight)
		return false;
	c->flight->start = c->snd_nxt;
	c->flight->fack = c->snd_nxt;
	c->flight->reo_mult = 1;
	return true;
}

void tcp_flight_destroy(struct tcp_conn *c)
{
	if (c->flight)
		c->ops->free(c->flight);
	c->flight = NULL;
}

static bool grow_flight(struct tcp_conn *c)
{
	struct tcp_flight *f = c->flight, *larger;
	uint16_t max = (uint16_t)(f->max * 4);

	if (max > TCP_FLIGHT_RUNS_MAX)
		return false;
	larger = alloc_flight(c, max);
	if (!larger)
		return false;
	memcpy(larger, f, sizeof(*f) + f->n * sizeof(f->r[0]));
	larger->max = max;
	c->ops->free(f);
	c->flight = larger;
	return true;
}

static void drop_run(struct tcp_flight *f, unsigned i)
{
	f->n--;
	memmove(&f->r[i], &f->r[i + 1], (f->n - i) * sizeof(f->r[0]));
}

/* Joins runs i and i + 1. */
static void join_runs(struct tcp_flight *f, unsigned i)
{
	struct tcp_run *a = &f->r[i], *b = a + 1;

	a->end = b->end;
	a->first = seq_min(a->first, b->first);
	a->last = seq_max(a->last, b->last);
	drop_run(f, i + 1);
}

/* Joins neighbours with equal flags, pair by pair; send times become less precise. */
static void join_pairs(struct tcp_flight *f)
{
	for (unsigned i = 0; i + 1 < f->n; i++) {
		if (f->r[i].what == f->r[i + 1].what)
			join_runs(f, i);
	}
}

bool tcp_flight_reserve(struct tcp_conn *c, unsigned more)
{
	if ((unsigned)c->flight->n + more <= c->flight->max || grow_flight(c))
		return true;
	join_pairs(c->flight);
	return (unsigned)c->flight->n + more <= c->flight->max;
}

/* Splits run i at seq; the rest becomes run i + 1. */
static void split_run(struct tcp_flight *f, unsigned i, uint32_t seq)
{
	assert(f->n < f->max);
	memmove(&f->r[i + 1], &f->r[i], (f->n - i) * sizeof(f->r[0]));
	f->n++;
	f->r[i].end = seq;
}

/* ---- delivered data ------------------------------------------------------------------- */

/*
 * RFC 8985 section 6.2 step 2: true if the original of a retransmitted segment was delivered, and
 * not the retransmission.
 */
static bool was_original(const struct tcp_run *r, const struct tcp_news *news)
{
	uint32_t age = news->usec - r->last;

	return news->echo_age > age + 1000 || age < news->min_rtt;
}

/* size bytes of r that end at end were delivered. */
static void mark_delivered(struct tcp_flight *f, const struct tcp_run *r, uint32_t end,
			   uint32_t size, struct tcp_news *news)
{
	uint32_t sent = end == r->end ? r->last : r->first;

	news->delivered += size;
	if (r->what & RUN_LOST)
		f->lost -= size;
	if (!(r->what & RUN_RTX)) {
		news->sent = sent;
		news->sampled = true;
		news->clean |= seq_leq(end, news->recover);
		news->reordered |= seq_lt(end, news->fack);
	} else if (was_original(r, news)) {
		return;
	}
	f->fack = seq_max(f->fack, end);
	if (!f->rack_rtt || seq_lt(f->rack_at, r->first) ||
	    (f->rack_at == r->first && seq_lt(f->rack_end, end))) {
		f->rack_at = r->first;
		f->rack_end = end;
		f->rack_rtx = (r->what & RUN_RTX) != 0;
		f->rack_rtt = max_u32(news->usec - r->first, 1);
	}
}

void tcp_flight_acked(struct tcp_flight *f, uint32_t una, struct tcp_news *news)
{
	unsigned gone = 0;

	for (unsigned i = 0; i < f->n && seq_lt(tcp_run_start(f, i), una); i++) {
		const struct tcp_run *r = &f->r[i];
		uint32_t end = seq_min(r->end, una), size = end - tcp_run_start(f, i);

		if (r->what & RUN_SACKED)
			f->sacked -= size;
		else
			mark_delivered(f, r, end, size, news);
		gone += end == r->end;
	}
	f->n = (uint16_t)(f->n - gone);
	memmove(&f->r[0], &f->r[gone], f->n * sizeof(f->r[0]));
	f->start = una;
}

void tcp_flight_sacked(struct tcp_conn *c, uint32_t start, uint32_t end, struct tcp_news *news)
{
	struct tcp_flight *f;
	unsigned i = 0;

	if (!tcp_flight_reserve(c, 2))
		return; /* the data is retransmitted needlessly */
	f = c->flight;
	while (i < f->n && seq_leq(f->r[i].end, start))
		i++;
	for (; i < f->n && seq_lt(tcp_run_start(f, i), end); i++) {
		if (f->r[i].what & RUN_SACKED)
			continue;
		if (seq_lt(tcp_run_start(f, i), start)) {
			split_run(f, i, start);
			continue;
		}
		if (seq_gt(f->r[i].end, end))
			split_run(f, i, end);
		mark_delivered(f, &f->r[i], f->r[i].end, tcp_run_size(f, i), news);
		f->sacked += tcp_run_size(f, i);
		f->r[i].what = (f->r[i].what & RUN_RTX) | RUN_SACKED;
	}
	for (i = 0; i + 1 < f->n;) {
		if (f->r[i].what & f->r[i + 1].what & RUN_SACKED) {
			f->r[i].what |= f->r[i + 1].what;
			join_runs(f, i);
		} else {
			i++;
		}
	}
}

/* ---- lost data ------------------------------------------------------------------------- */

void tcp_flight_lose(struct tcp_flight *f, unsigned i)
{
	if (f->r[i].what & (RUN_SACKED | RUN_LOST))
		return;
	f->r[i].what |= RUN_LOST;
	f->lost += tcp_run_size(f, i);
}

void tcp_flight_lose_all(struct tcp_flight *f)
{
	for (unsigned i = 0; i < f->n; i++)
		tcp_flight_lose(f, i);
}

void tcp_flight_lose_below(struct tcp_conn *c, uint32_t end)
{
	bool room = tcp_flight_reserve(c, 1);
	struct tcp_flight *f = c->flight;

	for (unsigned i = 0; i < f->n && seq_lt(tcp_run_start(f, i), end); i++) {
		if (room && seq_gt(f->r[i].end, end) && !(f->r[i].what & RUN_LOST))
			split_run(f, i, end);
		tcp_flight_lose(f, i);
	}
}

void tcp_flight_find(struct tcp_flight *f)
{
	for (unsigned i = 0; i < f->n; i++)
		f->r[i].what &= ~RUN_LOST;
	f->lost = 0;
}

void tcp_flight_forget_sacks(struct tcp_flight *f)
{
	for (unsigned i = 0; i < f->n; i++)
		f->r[i].what &= ~RUN_SACKED;
	f->sacked = 0;
}

uint32_t tcp_flight_next_lost(const struct tcp_flight *f, uint32_t *start)
{
	if (!f->lost)
		return 0;
	for (unsigned i = 0; i < f->n; i++) {
		if (f->r[i].what & RUN_LOST) {
			*start = tcp_run_start(f, i);
			return tcp_run_size(f, i);
		}
	}
	return 0;
}

/* ---- retransmitted data ----------------------------------------------------------------- */

static void mark_resent(struct tcp_flight *f, unsigned i, uint32_t usec)
{
	struct tcp_run *r = &f->r[i];

	if (r->what & RUN_LOST)
		f->lost -= tcp_run_size(f, i);
	r->what = RUN_RTX;
	r->first = usec;
	r->last = usec;
	if (i && r[-1].what == RUN_RTX && r[-1].first == usec)
		join_runs(f, i - 1);
}

/* Moves [start, end) from run i to the previous run, which was also retransmitted. */
static bool extend_resent(struct tcp_flight *f, unsigned i, uint32_t start, uint32_t end,
			  uint32_t usec)
{
	struct tcp_run *before = &f->r[i] - 1;

	if (i == 0 || before->what != RUN_RTX || before->end != start)
		return false;
	if (f->r[i].what & RUN_LOST)
		f->lost -= end - start;
	before->end = end;
	before->last = usec;
	return true;
}

void tcp_flight_resent(struct tcp_conn *c, uint32_t start, uint32_t end, uint32_t usec)
{
	bool room = tcp_flight_reserve(c, 1);
	struct tcp_flight *f = c->flight;
	unsigned i = 0;

	while (i < f->n && seq_leq(f->r[i].end, start))
		i++;
	if (i == f->n)
		return;
	if (seq_lt(end, f->r[i].end)) {
		if (!room && extend_resent(f, i, start, end, usec))
			return;
		/*
		 * Without room the whole run is marked as retransmitted; the rest will be detected
		 * as lost again.
		 */
		if (room)
			split_run(f, i, end);
	}
	mark_resent(f, i, usec);
}

void tcp_flight_resent_tail(struct tcp_conn *c, uint32_t start, uint32_t usec)
{
	bool room = tcp_flight_reserve(c, 1);
	struct tcp_flight *f = c->flight;

	for (unsigned i = f->n; i-- > 0 && seq_gt(f->r[i].end, start);) {
		if (room && seq_lt(tcp_run_start(f, i), start)) {
			split_run(f, i, start);
			i++;
			room = false;
		}
		mark_resent(f, i, usec);
	}
}
