/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/tcp_recvq.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/user.h"
#include "net/tcp/tcp_seq.h"
#include "net/tcp/tcp_wire.h"

/* The first sequence number after the packet's bytes, without a FIN. */
static uint32_t end_of(const struct pkt *pkt)
{
	return pkt->seq + pkt->len;
}

void tcp_recvq_set_limit(struct tcp_recvq *q, uint32_t rcvbuf)
{
	uint64_t limit = (uint64_t)rcvbuf * TCP_RECVQ_ROOM_FACTOR;

	if (limit < TCP_RECVQ_ROOM_MIN)
		limit = TCP_RECVQ_ROOM_MIN;
	q->limit = limit > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)limit;
}

static void free_packet(struct tcp_recvq *q, struct pkt *pkt)
{
	q->room -= pkt_size(pkt);
	pkt_free(pkt);
}

void tcp_recvq_prune(struct tcp_recvq *q)
{
	struct pkt *pkt, *next;

	for (pkt = q->ooo; pkt; pkt = next) {
		next = pkt->next;
		free_packet(q, pkt);
	}
	q->ooo = NULL;
	q->ooo_run = NULL;
	q->runs = 0;
}

void tcp_recvq_purge(struct tcp_recvq *q)
{
	struct pkt *pkt, *next;

	tcp_recvq_prune(q);
	for (pkt = q->head; pkt; pkt = next) {
		next = pkt->next;
		free_packet(q, pkt);
	}
	q->head = NULL;
	q->tail = NULL;
	q->bytes = 0;
	assert(q->room == 0);
}

/* True if the payload of pkt fits after that of `to`. */
static bool fits_behind(const struct pkt *to, const struct pkt *pkt)
{
	uint32_t end = (uint32_t)to->off + to->len;

	return pkt->len <= to->room - end && (uint32_t)to->len + pkt->len <= UINT16_MAX &&
	       !(to->tcp_flags & TCP_FIN);
}

static bool coalesce(struct pkt *to, const struct pkt *pkt)
{
	uint32_t end = (uint32_t)to->off + to->len;

	if (!fits_behind(to, pkt))
		return false;
	memcpy(to->frame + end, pkt_payload(pkt), pkt->len);
	to->len = (uint16_t)(to->len + pkt->len);
	to->tcp_flags |= pkt->tcp_flags & TCP_FIN;
	if (to->frame_len < end + pkt->len)
		to->frame_len = end + pkt->len;
	return true;
}

static void link_tail(struct tcp_recvq *q, struct pkt *pkt)
{
	pkt_append(&q->head, &q->tail, pkt);
	q->bytes += pkt->len;
}

/* Copies small segments together, which pays above half of the limit. */
static bool append_crowded(struct tcp_recvq *q, struct pkt *pkt, bool *pruned)
{
	uint32_t len = pkt->len;

	if (q->tail && coalesce(q->tail, pkt)) {
		q->bytes += len;
		pkt_free(pkt);
		return true;
	}
	if (q->room + pkt_size(pkt) > q->limit && q->ooo) {
		tcp_recvq_prune(q);
		*pruned = true;
	}
	/* An empty queue takes one packet of any size, to avoid a deadlock. */
	if (q->room + pkt_size(pkt) > q->limit && q->head)
		return false;
	q->room += pkt_size(pkt);
	link_tail(q, pkt);
	return true;
}

bool tcp_recvq_append(struct tcp_recvq *q, struct pkt *pkt, bool *pruned)
{
	if (__builtin_expect(q->room + pkt_size(pkt) > q->limit / 2 || q->gather, 0))
		return append_crowded(q, pkt, pruned);
	q->room += pkt_size(pkt);
	link_tail(q, pkt);
	return true;
}

bool tcp_recvq_append_chain(struct tcp_recvq *q, struct pkt *first, struct pkt *last,
			    uint32_t bytes)
{
	uint64_t room = q->room;

	for (const struct pkt *pkt = first; pkt; pkt = pkt->next)
		room += pkt_size(pkt);
	if (room > q->limit / 2)
		return false;
	q->room = (uint32_t)room;
	if (q->tail)
		q->tail->next = first;
	else
		q->head = first;
	q->tail = last;
	q->bytes += bytes;
	return true;
}

bool tcp_recvq_keeps(const struct tcp_recvq *q, const struct pkt *pkt)
{
	if (!pkt->len)
		return pkt->tcp_flags & TCP_FIN;
	return !q->tail || end_of(q->tail) != pkt->seq || !fits_behind(q->tail, pkt);
}

uint32_t tcp_recvq_spare(const struct tcp_recvq *q, const struct pkt *pkt)
{
	if (!q->tail || end_of(q->tail) != pkt->seq)
		return 0;
	return q->bytes < TCP_RECVQ_SPARE ? q->bytes : TCP_RECVQ_SPARE;
}

static void cut_front(struct pkt *pkt, uint32_t n)
{
	pkt->seq += n;
	pkt->off = (uint16_t)(pkt->off + n);
	pkt->len = (uint16_t)(pkt->len - n);
}

/* ---- out of order: runs ---------------------------------------------------------------- */

/*
 * The first packet of the last run that begins at or before seq, or NULL. The usual case, arrival
 * in order, costs one comparison.
 */
static struct pkt *find_run(const struct tcp_recvq *q, uint32_t seq)
{
	struct pkt *run = NULL;

	if (q->ooo_run && seq_leq(q->ooo_run->seq, seq))
		return q->ooo_run;
	for (struct pkt *p = q->ooo; p && seq_leq(p->seq, seq); p = p->run_last->next)
		run = p;
	return run;
}

/* Removes the first packet of a run; before: the previous run, or NULL. */
static void shorten_run(struct tcp_recvq *q, struct pkt *pkt, struct pkt *before)
{
	struct pkt *rest = NULL;

	if (pkt->run_last != pkt) {
		rest = pkt->next;
		rest->run_last = pkt->run_last;
	} else {
		q->runs--;
	}
	if (q->ooo_run == pkt)
		q->ooo_run = rest ? rest : before;
}

/* Joins the run with the next one if there is no hole between them now. */
static void join_next(struct tcp_recvq *q, struct pkt *run)
{
	struct pkt *next = run->run_last->next;

	if (!next || next->seq != end_of(run->run_last))
		return;
	run->run_last = next->run_last;
	q->runs--;
	if (q->ooo_run == next)
		q->ooo_run = run;
}

/* Removes the packets after run that pkt covers; trims pkt at the next one. */
static void resolve_overlap(struct tcp_recvq *q, struct pkt *run, struct pkt *pkt)
{
	struct pkt **link = run ? &run->run_last->next : &q->ooo;
	struct pkt *p;

	while ((p = *link) && seq_lt(p->seq, end_of(pkt))) {
		if (seq_gt(end_of(p), end_of(pkt)) || (p->tcp_flags & TCP_FIN)) {
			pkt->len = (uint16_t)(p->seq - pkt->seq);
			pkt->tcp_flags &= (uint8_t)~TCP_FIN;
			return;
		}
		*link = p->next;
		shorten_run(q, p, run);
		free_packet(q, p);
	}
}

static void add_to_run(struct tcp_recvq *q, struct pkt *run, struct pkt *pkt)
{
	pkt->next = run->run_last->next;
	run->run_last->next = pkt;
	run->run_last = pkt;
	join_next(q, run);
}

/* before: the previous run, or NULL. */
static void begin_run(struct tcp_recvq *q, struct pkt *before, struct pkt *pkt)
{
	struct pkt **link = before ? &before->run_last->next : &q->ooo;

	pkt->run_last = pkt;
	pkt->next = *link;
	*link = pkt;
	q->runs++;
	if (q->ooo_run == before)
		q->ooo_run = pkt;
	join_next(q, pkt);
}

/* Trims bytes that are already queued; false if nothing is left. */
static bool cut_to_new(struct tcp_recvq *q, struct pkt *run, struct pkt *pkt)
{
	uint32_t known = run ? end_of(run->run_last) : 0;

	if (run && seq_gt(known, pkt->seq)) {
		if (seq_geq(known, end_of(pkt)))
			return false;
		cut_front(pkt, known - pkt->seq);
	} else if (run && run->run_last->seq == pkt->seq && pkt->len == 0) {
		return false; /* a second FIN */
	}
	resolve_overlap(q, run, pkt);
	return pkt->len || (pkt->tcp_flags & TCP_FIN);
}

/* True if inserting pkt after run adds a hole. */
static bool makes_hole(const struct tcp_recvq *q, const struct pkt *run, const struct pkt *pkt)
{
	const struct pkt *next = run ? run->run_last->next : q->ooo;

	return !next || next->seq != end_of(pkt);
}

bool tcp_recvq_insert(struct tcp_recvq *q, struct pkt *pkt, uint32_t *start, uint32_t *end)
{
	struct pkt *run = find_run(q, pkt->seq);
	bool joins;

	if (!cut_to_new(q, run, pkt))
		return false;
	*start = pkt->seq;
	*end = pkt->seq + pkt->len;
	joins = run && end_of(run->run_last) == pkt->seq;
	if (joins && (q->room > q->limit / 2 || q->gather) && coalesce(run->run_last, pkt)) {
		join_next(q, run);
		pkt_free(pkt);
		return true;
	}
	if (q->room + pkt_size(pkt) > q->limit)
		return false;
	if (!joins && q->runs == TCP_RECVQ_RUNS_MAX && makes_hole(q, run, pkt))
		return false;
	q->room += pkt_size(pkt);
	if (joins)
		add_to_run(q, run, pkt);
	else
		begin_run(q, run, pkt);
	return true;
}

uint32_t tcp_recvq_advance(struct tcp_recvq *q, uint32_t rcv_nxt, bool *fin)
{
	struct pkt *pkt;

	while ((pkt = q->ooo) && seq_leq(pkt->seq, rcv_nxt)) {
		shorten_run(q, pkt, NULL);
		q->ooo = pkt->next;
		*fin |= (pkt->tcp_flags & TCP_FIN) && seq_leq(rcv_nxt, end_of(pkt));
		if (seq_gt(end_of(pkt), rcv_nxt)) {
			cut_front(pkt, rcv_nxt - pkt->seq);
			rcv_nxt += pkt->len;
			link_tail(q, pkt); /* its room is already charged */
		} else {
			free_packet(q, pkt);
		}
		if (*fin) {
			tcp_recvq_prune(q);
			break;
		}
	}
	return rcv_nxt;
}

/* Replaces the packets of one list; returns its new last packet. */
static struct pkt *exchange_list(struct tcp_recvq *q, struct pkt **link,
				 struct pkt *(*fn)(struct pkt *pkt, void *arg), void *arg)
{
	struct pkt *last = NULL;

	for (; *link; link = &last->next) {
		struct pkt *next = (*link)->next;

		q->room -= pkt_size(*link);
		last = fn(*link, arg);
		last->next = next;
		q->room += pkt_size(last);
		*link = last;
	}
	return last;
}

static void find_runs_again(struct tcp_recvq *q)
{
	q->ooo_run = NULL;
	q->runs = 0;
	for (struct pkt *p = q->ooo, *last = NULL; p; last = p, p = p->next) {
		if (!last || end_of(last) != p->seq) {
			q->ooo_run = p;
			q->runs++;
		}
		q->ooo_run->run_last = p;
	}
}

void tcp_recvq_exchange(struct tcp_recvq *q, struct pkt *(*fn)(struct pkt *pkt, void *arg),
			void *arg)
{
	q->tail = exchange_list(q, &q->head, fn, arg);
	exchange_list(q, &q->ooo, fn, arg);
	find_runs_again(q);
}

/* Copies n bytes to iov[*i] at offset *at and advances both; false if it cannot be written. */
static bool scatter(const struct iovec *iov, int *i, size_t *at, const uint8_t *from, uint32_t n)
{
	size_t part;

	while (n) {
		part = iov[*i].iov_len - *at;
		if (part == 0) {
			++*i;
			*at = 0;
			continue;
		}
		if (part > n)
			part = n;
		if (__builtin_expect(!user_copy((uint8_t *)iov[*i].iov_base + *at, from, part), 0))
			return false;
		*at += part;
		from += part;
		n -= (uint32_t)part;
	}
	return true;
}

/* The result of a read that reached unwritable memory. */
static ssize_t faulted_read(uint32_t done)
{
	return done ? (ssize_t)done : -EFAULT;
}

static uint32_t room_of(const struct iovec *iov, int iovcnt, uint32_t most)
{
	size_t room = 0;

	for (int k = 0; k < iovcnt; k++)
		room += iov[k].iov_len;
	return room < most ? (uint32_t)room : most;
}

struct pkt *tcp_recvq_take(struct tcp_recvq *q)
{
	struct pkt *pkt = q->head;

	q->head = pkt->next;
	if (!q->head)
		q->tail = NULL;
	q->bytes -= pkt->len;
	q->room -= pkt_size(pkt);
	return pkt;
}

void tcp_recvq_put_back(struct tcp_recvq *q, struct pkt *pkt)
{
	pkt->next = q->head;
	q->head = pkt;
	if (!q->tail)
		q->tail = pkt;
	q->bytes += pkt->len;
	q->room += pkt_size(pkt);
}

/* Consumes n bytes of the first packet; returns the new first packet. */
static struct pkt *consume_head(struct tcp_recvq *q, uint32_t n)
{
	struct pkt *pkt = q->head, *next = pkt->next;

	q->bytes -= n;
	if (n < pkt->len) {
		cut_front(pkt, n);
		return pkt;
	}
	q->head = next;
	if (!next)
		q->tail = NULL;
	free_packet(q, pkt);
	return next;
}

/* Reads all of the only packet; false after a fault. */
static bool read_only_packet(struct tcp_recvq *q, uint8_t *to, struct pkt *pkt)
{
	if (__builtin_expect(!user_copy(to, pkt_payload(pkt), pkt->len), 0))
		return false;
	q->head = NULL;
	q->tail = NULL;
	q->bytes = 0;
	free_packet(q, pkt);
	return true;
}

ssize_t tcp_recvq_read_some(struct tcp_recvq *q, const struct iovec *iov, int iovcnt, uint32_t most)
{
	uint32_t want, done = 0, n;
	struct pkt *pkt = q->head;
	size_t at = 0;
	int i = 0;

	if (iovcnt == 1 && pkt && !pkt->next && pkt->len <= iov->iov_len && pkt->len <= most) {
		n = pkt->len;
		return read_only_packet(q, iov->iov_base, pkt) ? (ssize_t)n : -EFAULT;
	}
	want = room_of(iov, iovcnt, most);

	while (pkt && done < want) {
		n = want - done < pkt->len ? want - done : pkt->len;
		if (__builtin_expect(!scatter(iov, &i, &at, pkt_payload(pkt), n), 0))
			return faulted_read(done);
		done += n;
		pkt = consume_head(q, n);
	}
	return done;
}

ssize_t tcp_recvq_peek(const struct tcp_recvq *q, const struct iovec *iov, int iovcnt,
		       uint32_t skip, uint32_t most)
{
	uint32_t want = room_of(iov, iovcnt, most), done = 0, n;
	const struct pkt *pkt = q->head;
	size_t at = 0;
	int i = 0;

	for (; pkt && done < want; pkt = pkt->next) {
		if (skip >= pkt->len) {
			skip -= pkt->len;
			continue;
		}
		n = pkt->len - skip;
		n = want - done < n ? want - done : n;
		if (!scatter(iov, &i, &at, pkt_payload(pkt) + skip, n))
			return faulted_read(done);
		skip = 0;
		done += n;
	}
	return done;
}

void tcp_recvq_discard(struct tcp_recvq *q, uint32_t n)
{
	uint32_t step;

	for (assert(n <= q->bytes); n; n -= step) {
		step = n < q->head->len ? n : q->head->len;
		consume_head(q, step);
	}
}
