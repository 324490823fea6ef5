/* SPDX-License-Identifier: BSD-2-Clause */
/* The state variable: its transitions and their effects. */
#include <assert.h>
#include <errno.h>

#include "net/tcp/tcp_internal.h"

#define TO(state) (1u << (state))

/* RFC 9293 figure 5; every state may also change to CLOSED (RST, timeout). */
static const uint16_t tcp_edges[] = {
	[TCP_CLOSED] = TO(TCP_SYN_SENT) | TO(TCP_SYN_RECEIVED),
	[TCP_LISTEN] = 0, /* struct tcp_listener, a separate object */
	[TCP_SYN_SENT] = TO(TCP_SYN_RECEIVED) | TO(TCP_ESTABLISHED) | TO(TCP_CLOSED),
	[TCP_SYN_RECEIVED] = TO(TCP_ESTABLISHED) | TO(TCP_CLOSED),
	[TCP_ESTABLISHED] = TO(TCP_FIN_WAIT_1) | TO(TCP_CLOSE_WAIT) | TO(TCP_CLOSED),
	[TCP_FIN_WAIT_1] = TO(TCP_FIN_WAIT_2) | TO(TCP_CLOSING) | TO(TCP_TIME_WAIT) |
			   TO(TCP_CLOSED),
	[TCP_FIN_WAIT_2] = TO(TCP_TIME_WAIT) | TO(TCP_CLOSED),
	[TCP_CLOSE_WAIT] = TO(TCP_LAST_ACK) | TO(TCP_CLOSED),
	[TCP_CLOSING] = TO(TCP_TIME_WAIT) | TO(TCP_CLOSED),
	[TCP_LAST_ACK] = TO(TCP_CLOSED),
	[TCP_TIME_WAIT] = TO(TCP_CLOSED),
};

/* The only function that writes ->state. */
void tcp_set_state(struct tcp_conn *c, enum tcp_state next)
{
	(void)tcp_edges; /* unused without assertions */
	assert(tcp_edges[c->state] & TO(next));
	c->ops->event(c, TCP_EVENT_STATE, (uint32_t)c->state << 8 | next);
	c->state = (uint8_t)next;
}

/* Readable data stays readable until tcp_close(), as on Linux. */
void tcp_retire(struct tcp_conn *c, nsec_t now)
{
	tcp_set_state(c, TCP_CLOSED);
	tcp_timer_stop_all(c);
	if (c->snd.len)
		c->busy += now;
	if (c->limit)
		tcp_limited_by(c, TCP_LIMIT_NONE, now);
	tcp_loss_fini(c);
	tcp_sndbuf_fini(&c->snd, c->ops);
	tcp_recvq_prune(&c->rcv);
	if (c->flags & CONN_DETACHED) {
		tcp_recvq_purge(&c->rcv);
		tcp_rare_fini(c);
	}
	c->sacks = 0;
	c->flags &= ~(uint32_t)(CONN_DUE | CONN_SND_FULL | CONN_PACED);
}

void tcp_finish(struct tcp_conn *c, int error, nsec_t now)
{
	tcp_retire(c, now);
	c->error = error;
	c->ops->closed(c, error);
}

void tcp_begin_fin(struct tcp_conn *c)
{
	if (!(c->flags & CONN_FIN_WANTED))
		return;
	if (c->state == TCP_ESTABLISHED)
		tcp_set_state(c, TCP_FIN_WAIT_1);
	else if (c->state == TCP_CLOSE_WAIT)
		tcp_set_state(c, TCP_LAST_ACK);
	c->flags |= CONN_OUTPUT;
}

void tcp_establish(struct tcp_conn *c, nsec_t now)
{
	c->snd_una = c->iss + 1;
	tcp_set_state(c, TCP_ESTABLISHED);
	c->retries = 0;
	if (c->flags & CONN_SYN_RTX) /* Karn: no sample */
		c->rtt.rto = RTT_FALLBACK_RTO;
	else if (now > c->progress_at) /* of a cookie the start is unknown */
		rtt_sample(&c->rtt, now - c->progress_at, tcp_min_rto(c));
	c->progress_at = now;
	tcp_cc_init(&c->cc, c->cc.ops, c->mss);
	tcp_begin_flight(c);
	tcp_timer_established(c, now);
	tcp_tune_established(c, now);
	c->ops->established(c);
	tcp_begin_fin(c);
	c->flags |= CONN_OUTPUT;
}

void tcp_enter_time_wait(struct tcp_conn *c, nsec_t now)
{
	tcp_set_state(c, TCP_TIME_WAIT);
	tcp_timer_time_wait(c, now);
}
