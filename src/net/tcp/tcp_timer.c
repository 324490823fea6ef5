/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timer policy.  The rest of the engine reports events; this file derives the deadlines.  A
 * deadline is a number in the connection, so setting one costs a store.
 */
#include <errno.h>

#include "net/tcp/tcp_internal.h"

static nsec_t min_nsec(nsec_t a, nsec_t b)
{
	return a < b ? a : b;
}

static nsec_t user_timeout(const struct tcp_conn *c)
{
	return c->user_timeout * NSEC_PER_MSEC;
}

static nsec_t keepalive_idle(const struct tcp_conn *c)
{
	return c->keepalive.idle * NSEC_PER_SEC;
}

/* now + wait, limited by the user timeout. */
static nsec_t limit_wait(const struct tcp_conn *c, nsec_t now, nsec_t wait)
{
	nsec_t at = now + wait;

	if (unlikely(c->user_timeout) && c->progress_at + user_timeout(c) > now)
		at = min_nsec(at, c->progress_at + user_timeout(c));
	return at;
}

static nsec_t rto_deadline(const struct tcp_conn *c, nsec_t now)
{
	return limit_wait(c, now, c->rtt.rto);
}

/* The interval of window probes doubles separately, because nothing was lost. */
static nsec_t probe_interval(const struct tcp_conn *c)
{
	return min_nsec(c->rtt.rto << min_u32(c->retries, 10), RTT_MAX_RTO);
}

/* The timeout counted from the transmission of the first byte in flight; always in the future. */
static nsec_t head_deadline(const struct tcp_conn *c, nsec_t now)
{
	const struct tcp_flight *f = c->flight;
	nsec_t age = f && f->n ? (nsec_t)(tcp_usec(now) - f->r[0].last) * NSEC_PER_USEC : 0;

	return limit_wait(c, now,
			  c->rtt.rto > age + NSEC_PER_MSEC ? c->rtt.rto - age : NSEC_PER_MSEC);
}

/* With data in flight: sets the timeout, or an earlier timer (RFC 8985 section 7.2). */
static void arm_timer(struct tcp_conn *c, nsec_t rto_at, nsec_t now)
{
	nsec_t wait = NSEC_NEVER;
	enum tcp_timer what = TCP_TIMER_TLP;

	c->timer = TCP_TIMER_RTO;
	c->rto_at = rto_at;
	if (likely(!c->trouble)) {
		wait = tcp_tlp_timeout(c);
	} else if (c->flight && c->flight->reo_wait) {
		wait = c->flight->reo_wait * NSEC_PER_USEC;
		what = TCP_TIMER_REORDER;
	}
	if (wait < rto_at - now) {
		c->timer = (uint8_t)what;
		c->rto_at = now + wait;
	}
}

void tcp_timer_syn_sent(struct tcp_conn *c, nsec_t now)
{
	c->retries = 0;
	c->progress_at = now;
	c->rto_at = rto_deadline(c, now);
}

/*
 * RFC 6298 (5.1). first: nothing was in flight before; then the user timeout starts and probing
 * ends.
 */
void tcp_timer_data_sent(struct tcp_conn *c, bool first, nsec_t now)
{
	c->tx_at = now;
	if (!first) {
		if ((c->flags & CONN_SACK) && !c->trouble)
			arm_timer(c, head_deadline(c, now), now);
		return;
	}
	c->retries = 0;
	c->progress_at = now;
	arm_timer(c, rto_deadline(c, now), now);
}

/* RFC 6675 section 5, step 4.3; RFC 6298 allows it. */
void tcp_timer_lost_resent(struct tcp_conn *c, nsec_t now)
{
	c->tx_at = now;
	tcp_timer_restart(c, now);
}

/* A duplicate ACK: an earlier timer may be necessary. */
void tcp_timer_duplicate(struct tcp_conn *c, nsec_t now)
{
	if (tcp_in_flight(c) && (c->timer != TCP_TIMER_RTO || (c->flight && c->flight->reo_wait)))
		arm_timer(c, head_deadline(c, now), now);
}

void tcp_timer_restart(struct tcp_conn *c, nsec_t now)
{
	arm_timer(c, rto_deadline(c, now), now);
}

/*
 * Nothing is in flight and queued data must wait: the window is closed, cork or silly-window
 * avoidance holds it back, or ops->send() had no buffer.
 */
void tcp_timer_held_back(struct tcp_conn *c, nsec_t now)
{
	if (c->rto_at != NSEC_NEVER)
		return;
	c->retries = 0;
	c->progress_at = now;
	c->rto_at = c->snd_wnd ? limit_wait(c, now, TCP_HOLD) : rto_deadline(c, now);
}

void tcp_timer_established(struct tcp_conn *c, nsec_t now)
{
	c->rto_at = NSEC_NEVER;
	c->life_at = c->keepalive.on ? now + keepalive_idle(c) : NSEC_NEVER;
}

/*
 * Starts the timer only after tcp_close(): after tcp_shutdown() the program may still read, without
 * a limit. As Linux: longer than a few timeouts, regardless of TCP_LINGER2.
 */
bool tcp_timer_fin_wait_2(struct tcp_conn *c, nsec_t now)
{
	nsec_t wait = c->linger2 * NSEC_PER_SEC, least = 4 * c->rtt.rto - c->rtt.rto / 2;

	if (!(c->flags & CONN_DETACHED))
		return false;
	if (c->linger2 < 0) {
		tcp_output_rst(c, now);
		tcp_finish(c, 0, now);
		return true;
	}
	c->life_at = now + (wait > least ? wait : least);
	return false;
}

void tcp_timer_time_wait(struct tcp_conn *c, nsec_t now)
{
	c->rto_at = NSEC_NEVER;
	c->life_at = now + TCP_TIME_WAIT_LEN;
}

void tcp_timer_stop_all(struct tcp_conn *c)
{
	c->rto_at = NSEC_NEVER;
	c->ack_at = NSEC_NEVER;
	c->life_at = NSEC_NEVER;
	c->trim_at = NSEC_NEVER;
}

void tcp_route_found(struct tcp_conn *c, nsec_t now)
{
	if (c->rto_at == NSEC_NEVER)
		return;
	if (tcp_in_flight(c))
		c->timer = TCP_TIMER_RTO;
	c->retries = 0;
	c->rto_at = now;
}

static bool user_timed_out(const struct tcp_conn *c, nsec_t now)
{
	return c->user_timeout && now - c->progress_at >= user_timeout(c);
}

/*
 * The limit of retries at the given interval. As Linux (tcp_orphan_retries): fewer after the
 * program closed the socket, and none when the interval is at its maximum, even if the peer
 * answers.
 */
static unsigned most_retries(const struct tcp_conn *c, nsec_t interval)
{
	if (!(c->flags & CONN_DETACHED))
		return tcp_settings.retries2;
	if (tcp_settings.orphan_retries)
		return tcp_settings.orphan_retries;
	return interval < RTT_MAX_RTO ? TCP_ORPHAN_RETRIES : 0;
}

/* The time from the first of so many retransmissions to the last one's timeout, if none was longer. */
static nsec_t least_time(unsigned retries)
{
	nsec_t time = 0, rto = RTT_MIN_RTO;

	for (unsigned i = 0; i <= retries; i++) {
		time += rto;
		rto = min_nsec(2 * rto, RTT_MAX_RTO);
	}
	return time;
}

/*
 * Data is retransmitted in vain for too long. As Linux: the limit is a time, so that a long round trip
 * does not give a connection more, and a user timeout replaces it.
 */
static bool sent_in_vain(const struct tcp_conn *c, nsec_t now)
{
	nsec_t first = c->progress_at + rtt_base(&c->rtt, tcp_min_rto(c));

	return c->retries && !c->user_timeout &&
	       now - first >= least_time(most_retries(c, c->rtt.rto));
}

static void backoff(struct tcp_conn *c)
{
	rtt_backoff(&c->rtt);
	c->ops->event(c, TCP_EVENT_TIMEOUT, (uint32_t)(c->rtt.rto / NSEC_PER_MSEC));
}

/* A SYN or SYN-ACK was not answered. */
static void handshake_timeout(struct tcp_conn *c, nsec_t now)
{
	bool active = c->state == TCP_SYN_SENT;
	unsigned limit = active ? tcp_settings.syn_retries : tcp_settings.syn_ack_retries;
	unsigned linear = active ? tcp_settings.syn_linear : 0;

	if (c->syn_retries)
		limit = c->syn_retries;
	limit += linear;
	if (c->retries >= limit || user_timed_out(c, now)) {
		tcp_finish(c, ETIMEDOUT, now);
		return;
	}
	c->retries++;
	c->flags |= CONN_SYN_RTX;
	if (active)
		c->flags &= ~(uint32_t)CONN_ECN; /* RFC 3168 section 6.1.1.1 */
	if (c->retries > linear)
		backoff(c);
	else
		c->ops->event(c, TCP_EVENT_TIMEOUT, (uint32_t)(c->rtt.rto / NSEC_PER_MSEC));
	tcp_count_retransmit(c, 0);
	tcp_output_syn(c, now);
	c->rto_at = rto_deadline(c, now);
}

/*
 * A peer that shrank its window to zero and still answers is alive: retransmissions then serve as
 * window probes, and their number is not limited.
 */
static bool shrunk_but_alive(const struct tcp_conn *c, nsec_t now)
{
	return c->snd_wnd == 0 && !(c->flags & CONN_DETACHED) && now - c->rx_at < RTT_MAX_RTO;
}

/* RFC 6298 (5.4) to (5.6) */
static void retransmission_timeout(struct tcp_conn *c, nsec_t now)
{
	if ((sent_in_vain(c, now) && !shrunk_but_alive(c, now)) || user_timed_out(c, now)) {
		tcp_finish(c, ETIMEDOUT, now);
		return;
	}
	tcp_loss_timeout(c, now);
	if (c->retries >= 2)
		tcp_mtu_black_hole(c, now);
	if (c->retries < UINT8_MAX)
		c->retries++;
	backoff(c);
	arm_timer(c, rto_deadline(c, now), now);
	tcp_output(c, now);
}

/* A timer that is earlier than the retransmission timer expired. */
static void early_timeout(struct tcp_conn *c, nsec_t now)
{
	if (c->timer == TCP_TIMER_TLP)
		(void)tcp_output_tail(c, now);
	else
		tcp_loss_reorder_timeout(c, now);
	c->timer = TCP_TIMER_RTO;
	c->rto_at = head_deadline(c, now);
	if (c->recovery)
		tcp_output(c, now);
}

static void probe(struct tcp_conn *c, nsec_t now)
{
	c->probes++;
	c->ops->event(c, TCP_EVENT_PROBE, c->probes);
	tcp_output_probe(c, now);
}

/*
 * RFC 9293 section 3.8.6.1: data is queued and nothing is in flight. With an open window the data
 * was held back and is sent now, even a partial segment; with a closed one sends a probe. Answered
 * probes have no limit, unless the program has closed the socket.
 */
static void held_timeout(struct tcp_conn *c, nsec_t now)
{
	nsec_t interval = probe_interval(c);
	unsigned most = most_retries(c, interval);

	c->rto_at = NSEC_NEVER;
	if (!tcp_unsent(c))
		return;
	c->rto_at = limit_wait(c, now, TCP_HOLD);
	c->flags |= CONN_PUSH;
	tcp_output(c, now);
	if (tcp_in_flight(c))
		return;
	if (c->probes >= most || user_timed_out(c, now) ||
	    ((c->flags & CONN_DETACHED) && interval == RTT_MAX_RTO && c->retries >= most)) {
		tcp_finish(c, ETIMEDOUT, now);
		return;
	}
	if (c->snd_wnd)
		return; /* ops->send() had no buffer */
	if (c->retries < UINT8_MAX)
		c->retries++;
	c->rto_at = limit_wait(c, now, probe_interval(c));
	probe(c, now);
}

/* RFC 9293 section 3.8.4; a probe was answered if rx_at advanced. */
static void keepalive_timeout(struct tcp_conn *c, nsec_t now)
{
	nsec_t silent = now - c->rx_at;
	bool dead;

	c->life_at = NSEC_NEVER;
	if (!c->keepalive.on)
		return;
	if (tcp_in_flight(c) || tcp_unsent(c)) {
		c->life_at = now + keepalive_idle(c); /* other timers detect a dead peer */
		return;
	}
	if (silent < keepalive_idle(c)) {
		c->probes = 0;
		c->life_at = c->rx_at + keepalive_idle(c);
		return;
	}
	dead = c->user_timeout ? silent >= user_timeout(c) && c->probes > 0
			       : c->probes >= c->keepalive.probes;
	if (dead) {
		tcp_output_rst(c, now);
		tcp_finish(c, ETIMEDOUT, now);
		return;
	}
	probe(c, now);
	c->life_at = now + c->keepalive.interval * NSEC_PER_SEC;
}

static void life_timeout(struct tcp_conn *c, nsec_t now)
{
	if (c->state == TCP_TIME_WAIT || (c->state == TCP_FIN_WAIT_2 && (c->flags & CONN_DETACHED)))
		tcp_finish(c, 0, now);
	else
		keepalive_timeout(c, now);
}

static void trim_memory(struct tcp_conn *c)
{
	tcp_sndbuf_fini(&c->snd, c->ops);
	tcp_loss_fini(c);
}

static void trim_timeout(struct tcp_conn *c, nsec_t now)
{
	c->trim_at = NSEC_NEVER;
	if (c->flags & CONN_PACED)
		tcp_output(c, now);
	if (c->snd.len || (c->flags & CONN_PACED))
		return; /* set again when it is empty */
	if (now - c->tx_at < TCP_TRIM_IDLE)
		c->trim_at = c->tx_at + TCP_TRIM_IDLE;
	else if (!tcp_in_flight(c))
		trim_memory(c);
}

void tcp_timer(struct tcp_conn *c, nsec_t now)
{
	if (now >= c->ack_at) {
		c->ack_at = NSEC_NEVER;
		c->flags |= CONN_ACK_NOW;
		tcp_flush(c, now);
	}
	if (now >= c->rto_at) {
		if (!tcp_synchronized(c))
			handshake_timeout(c, now);
		else if (tcp_in_flight(c) && c->timer != TCP_TIMER_RTO)
			early_timeout(c, now);
		else if (tcp_in_flight(c))
			retransmission_timeout(c, now);
		else
			held_timeout(c, now);
	}
	if (now >= c->life_at)
		life_timeout(c, now);
	if (now >= c->trim_at)
		trim_timeout(c, now);
}
