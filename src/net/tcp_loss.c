/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is lost and what is sent again: RFC 6675 with SACK, RFC 5681 and RFC 6582
 * (NewReno) without, RFC 3042 (limited transmit), timeouts.
 *
 * All of it is said by three sequence numbers.  In recovery, what lies below
 * lost_edge and was not SACKed is lost; below rtx_nxt it is on its way again.
 * Recovery is over when everything below recover has arrived.
 */
#include <assert.h>
#include <string.h>

#include "net/tcp_internal.h"

#define RANGES 32

/* What the peer has above snd_una: ascending, no two touch. */
struct tcp_scoreboard {
	uint32_t n;
	uint32_t bytes;
	struct tcp_range r[RANGES];
};

static uint32_t size_of(const struct tcp_range *r)
{
	return r->end - r->start;
}

/* False when that was known, or there is no room to know it. */
static bool board_add(struct tcp_scoreboard *b, struct tcp_range add)
{
	uint32_t before = b->bytes, first = 0, last;

	while (first < b->n && seq_lt(b->r[first].end, add.start))
		first++;
	for (last = first; last < b->n && seq_leq(b->r[last].start, add.end); last++) {
		add.start = seq_min(add.start, b->r[last].start);
		add.end = seq_max(add.end, b->r[last].end);
		b->bytes -= size_of(&b->r[last]);
	}
	if (first == last && b->n == RANGES)
		return false; /* it will be sent again in vain */
	/* r[first .. last) become one, or a place is made for a new one. */
	memmove(&b->r[first + 1], &b->r[last], (b->n - last) * sizeof(b->r[0]));
	b->n -= last - first;
	b->n++;
	b->r[first] = add;
	b->bytes += size_of(&add);
	return b->bytes != before;
}

static void board_trim(struct tcp_scoreboard *b, uint32_t una)
{
	uint32_t gone = 0;

	while (gone < b->n && seq_leq(b->r[gone].end, una))
		b->bytes -= size_of(&b->r[gone++]);
	memmove(&b->r[0], &b->r[gone], (b->n - gone) * sizeof(b->r[0]));
	b->n -= gone;
	if (b->n && seq_lt(b->r[0].start, una)) {
		b->bytes -= una - b->r[0].start;
		b->r[0].start = una;
	}
}

/* RFC 6675 IsLost(): the sequence number below which all holes are lost. */
static uint32_t board_edge(const struct tcp_conn *c)
{
	const struct tcp_scoreboard *b = c->scoreboard;
	uint32_t above = 0;

	if (!b)
		return c->snd_una;
	for (uint32_t i = b->n; i-- > 0;) {
		above += size_of(&b->r[i]);
		if (above > (TCP_DUPACKS - 1) * (uint32_t)c->mss || b->n - i >= TCP_DUPACKS)
			return b->r[i].start;
	}
	return c->snd_una;
}

static void board_free(struct tcp_conn *c)
{
	if (c->scoreboard)
		c->ops->free(c->scoreboard);
	c->scoreboard = NULL;
}

void tcp_loss_fini(struct tcp_conn *c)
{
	board_free(c);
}

/* Takes in what an ACK SACKs; true when some of it is new. */
bool tcp_loss_sacked(struct tcp_conn *c, const struct tcp_options *opt)
{
	uint32_t out = c->snd_nxt - c->snd_una;
	bool news = false;

	for (unsigned i = 0; i < opt->sacks; i++) {
		struct tcp_range r = opt->sack[i];

		/*
		 * Distances from snd_una: comparisons alone would let a liar in from
		 * half the number space away.  Leaves D-SACK (RFC 2883) aside, too.
		 */
		if (r.start - c->snd_una >= r.end - c->snd_una || r.end - c->snd_una > out)
			continue;
		if (!c->scoreboard) {
			c->scoreboard = c->ops->alloc(sizeof(*c->scoreboard));
			if (!c->scoreboard)
				return false;
			c->scoreboard->n = 0;
			c->scoreboard->bytes = 0;
		}
		news |= board_add(c->scoreboard, r);
	}
	return news;
}

/* Unsacked bytes within [from, to). */
static uint32_t holes(const struct tcp_conn *c, uint32_t from, uint32_t to)
{
	uint32_t sum;

	if (seq_geq(from, to))
		return 0;
	sum = to - from;
	for (uint32_t i = 0; c->scoreboard && i < c->scoreboard->n; i++) {
		uint32_t start = seq_max(c->scoreboard->r[i].start, from);
		uint32_t end = seq_min(c->scoreboard->r[i].end, to);

		if (seq_lt(start, end))
			sum -= end - start;
	}
	return sum;
}

uint32_t tcp_loss_pipe(const struct tcp_conn *c)
{
	uint32_t out = c->snd_nxt - c->snd_una;
	uint32_t gone = c->scoreboard ? c->scoreboard->bytes : c->dup_bytes;

	if (c->recovery)
		gone += holes(c, seq_max(c->rtx_nxt, c->snd_una), c->lost_edge);
	return out > gone ? out - gone : 0;
}

uint32_t tcp_loss_next(const struct tcp_conn *c, uint32_t *seq)
{
	const struct tcp_scoreboard *b = c->scoreboard;
	uint32_t from = seq_max(c->rtx_nxt, c->snd_una), to = c->lost_edge;

	for (uint32_t i = 0; b && i < b->n; i++) {
		if (seq_leq(b->r[i].end, from))
			continue;
		if (seq_gt(b->r[i].start, from)) {
			to = seq_min(to, b->r[i].start);
			break;
		}
		from = b->r[i].end;
	}
	*seq = from;
	return seq_lt(from, to) ? to - from : 0;
}

/* The segment at snd_una is lost; how much that is, is a guess. */
static uint32_t first_segment_end(const struct tcp_conn *c)
{
	return seq_min(c->snd_una + c->mss, c->snd_nxt);
}

static void enter_fast(struct tcp_conn *c, nsec_t now)
{
	c->recovery = TCP_RECOVERY_FAST;
	c->recover = c->snd_nxt;
	c->rtx_nxt = c->snd_una;
	c->lost_edge = seq_max(board_edge(c), first_segment_end(c));
	tcp_cc_lost(&c->cc, c->snd_nxt - c->snd_una);
	c->flags |= CONN_RTX_NOW | CONN_OUTPUT;
}

static void leave(struct tcp_conn *c)
{
	if (c->recovery == TCP_RECOVERY_FAST)
		tcp_cc_recovered(&c->cc, c->snd_nxt - c->snd_una);
	c->recovery = TCP_RECOVERY_NONE;
	c->dup_bytes = 0;
	c->flags &= ~(uint32_t)CONN_RTX_NOW;
}

/*
 * A duplicate ACK: something behind snd_una has arrived.  The first two let new
 * data out, since what arrived is not in the network any more (RFC 3042).
 */
void tcp_loss_duplicate(struct tcp_conn *c, nsec_t now)
{
	uint32_t out = c->snd_nxt - c->snd_una;

	c->flags |= CONN_OUTPUT;
	if (c->recovery == TCP_RECOVERY_TIMEOUT)
		return;
	if (c->dupacks < UINT8_MAX)
		c->dupacks++;
	if (!(c->flags & CONN_SACK)) /* what is missing at snd_una has not arrived */
		c->dup_bytes = min_u32(c->dup_bytes + c->mss, out > c->mss ? out - c->mss : 0);
	if (c->recovery == TCP_RECOVERY_FAST) {
		c->lost_edge = seq_max(c->lost_edge, board_edge(c));
		return;
	}
	if (c->flags & CONN_SACK) {
		if (c->dupacks >= TCP_DUPACKS || seq_gt(board_edge(c), c->snd_una))
			enter_fast(c, now);
	} else if (c->dupacks >= TCP_DUPACKS && seq_gt(c->snd_una, c->recover)) {
		/* RFC 6582 section 4.1: else they may answer what was sent again */
		enter_fast(c, now);
	}
}

/* RFC 6582 section 3.2 step 3, partial acknowledgement; RFC 6675 (C). */
static void partial_ack(struct tcp_conn *c, uint32_t bytes)
{
	c->flags |= CONN_OUTPUT;
	if (c->flags & CONN_SACK) {
		c->lost_edge = seq_max(c->lost_edge, board_edge(c));
		if (seq_leq(c->rtx_nxt, c->snd_una) && seq_leq(c->lost_edge, c->snd_una))
			c->lost_edge = first_segment_end(c);
		c->rtx_nxt = seq_max(c->rtx_nxt, c->snd_una);
		return;
	}
	/* One segment was the one sent again, the others were counted before. */
	bytes = bytes > c->mss ? bytes - c->mss : 0;
	c->dup_bytes -= min_u32(bytes, c->dup_bytes);
	c->rtx_nxt = c->snd_una;
	c->lost_edge = first_segment_end(c);
	c->flags |= CONN_RTX_NOW;
}

void tcp_loss_acked(struct tcp_conn *c, uint32_t bytes, uint32_t flight, nsec_t now)
{
	if (c->scoreboard) {
		board_trim(c->scoreboard, c->snd_una);
		if (c->scoreboard->n == 0)
			board_free(c);
	}
	c->dupacks = 0;
	if (c->recovery == TCP_RECOVERY_FAST) {
		if (seq_geq(c->snd_una, c->recover))
			leave(c);
		else
			partial_ack(c, bytes);
		return;
	}
	tcp_cc_acked(&c->cc, bytes, flight, c->rtt.srtt, now);
	if (c->recovery == TCP_RECOVERY_TIMEOUT) {
		c->flags |= CONN_OUTPUT;
		c->rtx_nxt = seq_max(c->rtx_nxt, c->snd_una);
		if (seq_geq(c->snd_una, c->recover))
			leave(c);
		return;
	}
	c->dup_bytes = 0;
	if (seq_gt(board_edge(c), c->snd_una))
		enter_fast(c, now);
}

/* RFC 6298 (5.4), RFC 5681 equation (4), RFC 6675 section 5.1. */
void tcp_loss_timeout(struct tcp_conn *c, nsec_t now)
{
	/* It has thrown away what it had SACKed (RFC 2018 section 8). */
	if (c->scoreboard && seq_leq(c->scoreboard->r[0].start, c->snd_una))
		board_free(c);
	tcp_cc_timeout(&c->cc, c->snd_nxt - c->snd_una, c->retries > 0);
	c->recovery = TCP_RECOVERY_TIMEOUT;
	c->recover = c->snd_nxt;
	c->lost_edge = c->snd_nxt;
	c->rtx_nxt = c->snd_una;
	c->dupacks = 0;
	c->dup_bytes = 0;
	c->timed_at = NSEC_NEVER;
	c->flags |= CONN_RTX_NOW;
}
