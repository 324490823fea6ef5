/* SPDX-License-Identifier: BSD-2-Clause */
/* The program sends: data is queued, as far as there is room for it. */
#include <errno.h>

#include "net/tcp/tcp_internal.h"

static ssize_t send_refused(struct tcp_conn *c)
{
	if (c->state == TCP_CLOSED && c->error)
		return -tcp_take_error(c);
	if (!(c->flags & CONN_STARTED))
		return -ENOTCONN;
	if (c->state == TCP_CLOSED || (c->flags & CONN_FIN_WANTED))
		return -EPIPE;
	return -EAGAIN; /* not yet connected */
}

static uint32_t iov_bytes(const struct iovec *iov, int iovcnt)
{
	uint64_t sum = 0;

	for (int i = 0; i < iovcnt; i++) {
		sum += iov[i].iov_len;
		if (sum > INT32_MAX)
			return INT32_MAX;
	}
	return (uint32_t)sum;
}

/* Bytes that may be queued before the unsent bytes reach TCP_NOTSENT_LOWAT. */
static __attribute__((noinline)) uint32_t lowat_room(const struct tcp_conn *c)
{
	uint32_t unsent = tcp_unsent_bytes(c), pipe = tcp_pipe(c), may;
	int32_t window = (int32_t)(c->snd_una + c->snd_wnd - c->snd_nxt);

	if (unsent >= c->notsent_lowat)
		return 0;
	/* Bytes that can be sent at once do not count. */
	may = min_u32(c->cc.cwnd > pipe ? c->cc.cwnd - pipe : 0, window > 0 ? (uint32_t)window : 0);
	return c->notsent_lowat - unsent + (may > unsent ? may - unsent : 0);
}

/* The number of want bytes that may be queued. */
static inline uint32_t admissible_bytes(const struct tcp_conn *c, uint32_t want)
{
	return likely(c->notsent_lowat == UINT32_MAX) ? want : min_u32(want, lowat_room(c));
}

/* True if the owner may have to wait for room: ops->writable() reports when a third is free. */
static inline bool is_full(const struct tcp_conn *c, uint32_t want, uint32_t take)
{
	return take < want || c->snd.len + take > c->sndbuf - c->sndbuf / 3;
}

static __attribute__((noinline)) uint32_t enlarge_sndbuf(struct tcp_conn *c, uint32_t want)
{
	uint32_t take;

	tcp_tune_full(c);
	take = tcp_sndbuf_reserve(&c->snd, c->ops, admissible_bytes(c, want), c->sndbuf);
	if (is_full(c, want, take))
		c->flags |= CONN_SND_FULL;
	return take;
}

/* All bytes of a send are queued. */
static __attribute__((noinline)) void mark_end(struct tcp_conn *c, unsigned flags)
{
	if (flags & TCP_SEND_OOB)
		tcp_urgent_queued(c);
	if (flags & TCP_SEND_EOR)
		tcp_eor_queued(c);
}

ssize_t tcp_send(struct tcp_conn *c, const struct iovec *iov, int iovcnt, unsigned flags,
		 nsec_t now)
{
	uint32_t want = iov_bytes(iov, iovcnt), take;
	struct tcp_segment seg;
	bool idle;

	if (iovcnt == 1 && !flags && tcp_quick_begin(c, iov->iov_base, want, &seg, now) &&
	    likely(!c->ops->send(c, &seg))) {
		tcp_quick_sent(c, want, now);
		return want;
	}
	if (unlikely(!tcp_may_send(c) || (c->flags & CONN_FIN_WANTED)))
		return send_refused(c);
	if (unlikely(!want))
		return 0;
	if (unlikely(!c->flight) && !tcp_flight_create(c))
		return -ENOMEM;
	take = tcp_sndbuf_reserve(&c->snd, c->ops, admissible_bytes(c, want), c->sndbuf);
	if (unlikely(is_full(c, want, take)))
		take = enlarge_sndbuf(c, want);
	if (unlikely(take == 0))
		return c->snd.len ? -EAGAIN : -ENOMEM;
	idle = c->snd.len == 0;
	if (unlikely(!tcp_sndbuf_append(&c->snd, iov, iovcnt, take)))
		return -EFAULT;
	if (idle) {
		c->busy -= now;
		c->flight->rate_len = 0; /* a pause does not count as a low rate */
	}
	if (unlikely(flags & TCP_SEND_MORE))
		c->flags |= CONN_MORE;
	else
		c->flags &= ~(uint32_t)CONN_MORE;
	if (unlikely(flags & (TCP_SEND_OOB | TCP_SEND_EOR)) && take == want)
		mark_end(c, flags);
	tcp_output(c, now);
	return take;
}

uint32_t tcp_header_len(const struct tcp_conn *c)
{
	return TCP_HDR + (c->flags & CONN_TIMESTAMPS ? 12 : 0);
}

uint32_t tcp_writable_bytes(const struct tcp_conn *c)
{
	if (!tcp_may_send(c) || (c->flags & CONN_FIN_WANTED) || c->snd.len >= c->sndbuf)
		return 0;
	return admissible_bytes(c, c->sndbuf - c->snd.len);
}

bool tcp_is_writable(const struct tcp_conn *c)
{
	if (!tcp_may_send(c) || (c->flags & CONN_FIN_WANTED))
		return false;
	return tcp_has_room(c);
}

bool tcp_is_full(const struct tcp_conn *c)
{
	return (c->flags & CONN_SND_FULL) != 0;
}

void tcp_look_at_unsent(struct tcp_conn *c)
{
	if (c->flags & CONN_SND_FULL)
		tcp_tell_writable(c);
	else if (!tcp_has_room(c))
		c->flags |= CONN_SND_FULL;
}

void tcp_tell_writable(struct tcp_conn *c)
{
	tcp_tune_full(c);
	if (!tcp_has_room(c))
		return;
	c->flags &= ~(uint32_t)CONN_SND_FULL;
	c->ops->writable(c);
}

uint32_t tcp_unacked_bytes(const struct tcp_conn *c)
{
	return c->snd.len;
}
