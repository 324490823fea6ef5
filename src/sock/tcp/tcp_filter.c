/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receive callback of connections.
 *
 * Unseen packets stay in the engine's receive queue, so the window closes when nobody takes them.
 * All bytes of the queue are unseen (TCP_FILTER_HIDES: no call reads them), or all are for recv()
 * (TCP_FILTER_WAITS: the callback let one pass, or bytes were queued before it was registered).
 * Bytes that arrive then join them, because a stream has one order; when the program has read all,
 * the callback sees what comes next.
 */
#include <errno.h>

#include "net/tcp/tcp_rare.h"
#include "sock/core/extra/filter.h"
#include "sock/core/sock_options.h"
#include "sock/tcp/tcp_sock.h"

static struct inet_sock *sock_of(const struct filter *f)
{
	return inet_of(f->ref.sk);
}

static struct filter *get(const struct inet_sock *so)
{
	if (so->inet != INET_TCP || so->tcp.filter == TCP_FILTER_NONE)
		return NULL;
	return so->tcp.conn.rare->owner;
}

static void set_state(struct inet_sock *so, enum tcp_filter state)
{
	if (so->tcp.filter == state)
		return;
	__atomic_store_n(&so->tcp.filter, (uint8_t)state, __ATOMIC_RELAXED);
	sock_options_note(so);
}

/* ---- for the other files of tcp (holder) -------------------------------------------------- */

void tcp_filter_arrives(struct inet_sock *so)
{
	if (so->tcp.filter && !so->tcp.conn.rcv.bytes)
		set_state(so, TCP_FILTER_HIDES);
}

void tcp_filter_look(struct inet_sock *so, struct ring *ring)
{
	struct filter *f = get(so);

	if (f)
		filter_look(f, ring);
}

bool tcp_filter_hides(const struct inet_sock *so)
{
	return so->tcp.filter == TCP_FILTER_HIDES && (so->tcp.conn.rcv.bytes || get(so)->out);
}

uint32_t tcp_filter_readable(const struct inet_sock *so)
{
	return tcp_filter_hides(so) ? 0 : tcp_readable_bytes(&so->tcp.conn);
}

bool tcp_filter_is_out(const struct inet_sock *so)
{
	const struct filter *f = get(so);

	return f && f->out;
}

void tcp_filter_end(struct inet_sock *so)
{
	filter_end(get(so));
}

void tcp_filter_leave(struct inet_sock *so, struct ring *ring)
{
	filter_leave(get(so), ring);
}

void tcp_filter_fork_child(struct inet_sock *so)
{
	set_state(so, TCP_FILTER_NONE); /* the parent's */
}

/* ---- members of struct filter_kind --------------------------------------------------------- */

static int check(const struct inet_sock *so)
{
	if (sock_is_exported(&so->sk))
		return SOCK_FETCH;
	if (!sock_has_connection(so) || sock_has_ended(so))
		return -ENOTCONN;
	return 0;
}

static bool set(struct inet_sock *so, struct filter *f)
{
	struct tcp_rare *rare = tcp_rare(&so->tcp.conn);

	if (!rare)
		return false;
	rare->owner = f;
	set_state(so, !f		       ? TCP_FILTER_NONE
		      : so->tcp.conn.rcv.bytes ? TCP_FILTER_WAITS
					       : TCP_FILTER_HIDES);
	return true;
}

static bool waits(const struct filter *f)
{
	const struct inet_sock *so = sock_of(f);
	const struct tcp_conn *conn = &so->tcp.conn;

	/* If the program holds too much, it has to give packets back first. */
	return so->tcp.filter == TCP_FILTER_HIDES && conn->rcv.bytes &&
	       conn->rare->taken < conn->rcv.limit;
}

/* With urgent data, whose reading has rules of its own, all is queued. */
static void take(struct filter *f, struct filter_batch *b)
{
	struct inet_sock *so = sock_of(f);
	struct tcp_conn *conn = &so->tcp.conn;
	struct pkt *pkt;
	ssize_t len = 0;

	while (f->out < FILTER_BATCH && conn->rcv.bytes && (len = tcp_recv_first(conn, &pkt)) > 0) {
		tcp_recv_borrow(conn);
		pkt->flags |= PKT_APART;
		pkt_append(&b->first, &b->last, pkt);
		f->out++;
	}
	if (len == -EOPNOTSUPP && !f->out) {
		set_state(so, TCP_FILTER_WAITS);
		tcp_update_events(so, EPOLLIN | EPOLLRDNORM);
	}
	filter_set_endpoint(&b->alike_src, &so->remote);
	filter_set_endpoint(&b->alike_dst, &so->local);
	b->info.socket_ready_queue_pkt_count = 0;
	b->info.socket_ready_queue_byte_count = 0;
}

/* The oldest last: they are put in front of the queue one by one. */
static void put_back_all(struct tcp_conn *conn, struct pkt *unseen)
{
	struct pkt *pkts[FILTER_BATCH];
	unsigned n = 0;

	while ((pkts[n] = filter_pop(&unseen)))
		n++;
	while (n)
		tcp_recv_put_back(conn, pkts[--n]);
}

static void obey(struct filter *f, struct filter_batch *b, struct ring *ring)
{
	struct inet_sock *so = sock_of(f);
	struct tcp_conn *conn = &so->tcp.conn;
	bool ours = get(so) == f, passes = b->passed != NULL;
	struct pkt *pkt, *dropped = filter_dropped(b);

	if (!ours && passes)
		pkt_free(b->passed);
	while ((pkt = filter_pop(&dropped))) {
		if (ours)
			tcp_recv_returned(conn, pkt_size(pkt));
		pkt_free(pkt);
	}
	while (!ours && (pkt = filter_pop(&b->first)))
		pkt_free(pkt);	     /* the connection has ended, or it is another one */
	b->held = b->held_bytes = 0; /* the engine counts */
	if (ours && f->out) {
		put_back_all(conn, b->first);
		if (passes) {
			tcp_recv_put_back(conn, b->passed);
			set_state(so, TCP_FILTER_WAITS);
		}
		f->out = 0;
		ring_set_now(ring, clock_now());
		tcp_recv_borrowed_done(conn, ring->now);
		tcp_update_events(so, passes ? EPOLLIN | EPOLLRDNORM : 0);
		tcp_after(so, ring);
	}
	b->first = b->passed = NULL;
}

static void pass(struct filter *f)
{
	struct inet_sock *so = sock_of(f);

	set_state(so, TCP_FILTER_WAITS);
	tcp_update_events(so, so->tcp.conn.rcv.bytes ? EPOLLIN | EPOLLRDNORM : 0);
}

static void discard(struct filter *f)
{
	(void)f; /* the engine frees its queue */
}

const struct filter_kind tcp_filter_kind = {
	.check = check,
	.get = get,
	.set = set,
	.waits = waits,
	.take = take,
	.obey = obey,
	.pass = pass,
	.discard = discard,
	.describe = filter_describe_alike,
	.charge = pkt_size,
};
