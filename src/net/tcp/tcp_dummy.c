/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dummy sends. They run tcp_send() itself, so that its code and data are in the caches, and then
 * undo what it has changed. This is possible while nothing is queued or in flight: then all that
 * changes is in the connection, in the head of its struct tcp_flight, in struct tcp_rare, and in
 * the free part of the send buffer.
 */
#include <errno.h>
#include <string.h>

#include "net/tcp/tcp_internal.h"

/* What tcp_send() may change. */
struct before {
	struct tcp_conn conn;
	struct tcp_rare rare;
	uint8_t flight[sizeof(struct tcp_flight)]; /* a copy: it ends with an array */
};

static void save(struct before *b, const struct tcp_conn *c)
{
	b->conn = *c;
	if (c->flight)
		memcpy(b->flight, c->flight, sizeof(b->flight));
	if (c->rare)
		b->rare = *c->rare;
}

static void undo(struct tcp_conn *c, const struct before *b)
{
	struct tcp_sndbuf snd = c->snd;
	struct tcp_flight *flight = c->flight;

	snd.len = 0;
	if (!b->conn.snd.data)
		tcp_sndbuf_fini(&snd, b->conn.ops); /* no timer would free it */
	if (!b->conn.flight)
		tcp_flight_destroy(c);
	else
		memcpy(flight, b->flight, sizeof(b->flight)); /* it has no runs */
	if (!b->conn.rare)
		tcp_rare_fini(c);
	else
		*c->rare = b->rare;
	*c = b->conn;
	c->snd = snd;
	if (b->conn.flight)
		c->flight = flight;
}

ssize_t tcp_send_dummy(struct tcp_conn *c, const struct tcp_ops *ops, const struct iovec *iov,
		       int iovcnt, nsec_t now)
{
	size_t want = 0;
	struct before b;
	ssize_t n;

	for (int i = 0; i < iovcnt; i++)
		want += iov[i].iov_len;
	if (!tcp_may_send(c) || (c->flags & CONN_FIN_WANTED))
		return -EPIPE;
	if (want > c->mss)
		return -EMSGSIZE;
	if (c->snd.len)
		return -EAGAIN;
	save(&b, c);
	c->ops = ops;
	n = tcp_send(c, iov, iovcnt, 0, now);
	undo(c, &b);
	return n;
}
