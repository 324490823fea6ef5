/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Autotuning of the buffers.  They start small and grow with the path and the program's reads up to
 * a limit, unless the program set their size.
 *
 * The receive buffer is at least twice what the program reads in a round trip.  The window
 * then never limits a sender whose data is read at once ("Dynamic Right-Sizing", Fisk and
 * Feng), and a slow reader gets no larger buffer.  The send buffer is twice the congestion
 * window.
 */
#include "net/tcp/tcp_internal.h"

#define PER_MSEC 1000u
/*
 * The minimum round trip: a reader that waits for its next time slice counts as reading
 * continuously.
 */
#define RTT_LEAST (4 * PER_MSEC)
#define RTT_UNKNOWN (100 * PER_MSEC)
#define RTT_MOST (1u << 20)

static void set_rcvbuf(struct tcp_conn *c, uint32_t bytes)
{
	c->rcvbuf = bytes;
	tcp_recvq_set_limit(&c->rcv, bytes);
}

void tcp_tune_init(struct tcp_conn *c, const struct tcp_config *config)
{
	tcp_set_rcvbuf(c, config->rcvbuf);
	tcp_set_sndbuf(c, config->sndbuf);
	c->rcvbuf_max = min_u32(max_u32(c->rcvbuf, config->rcvbuf_max), TCP_CC_MAX_WINDOW);
	c->sndbuf_max = min_u32(max_u32(c->sndbuf, config->sndbuf_max), TCP_CC_MAX_WINDOW);
}

void tcp_set_rcvbuf(struct tcp_conn *c, uint32_t bytes)
{
	set_rcvbuf(c, min_u32(max_u32(bytes, TCP_RCVBUF_MIN), TCP_CC_MAX_WINDOW));
	c->rcvbuf_max = c->rcvbuf;
}

void tcp_set_sndbuf(struct tcp_conn *c, uint32_t bytes)
{
	c->sndbuf = min_u32(max_u32(bytes, 1), TCP_CC_MAX_WINDOW);
	c->sndbuf_max = c->sndbuf;
}

/* ---- receiving ----------------------------------------------------------------------- */

static uint32_t read_seq(const struct tcp_conn *c)
{
	return c->rcv_nxt - c->rcv.bytes;
}

void tcp_tune_established(struct tcp_conn *c, nsec_t now)
{
	c->tune_seq = read_seq(c);
	c->tune_at = tcp_usec(now);
	c->rcv_space = min_u32(c->rcvbuf, TCP_CC_INITIAL_SEGMENTS * c->config_mss);
}

/* In usec. Measured from the peer's timestamps, because we may never send data to this peer. */
static uint32_t round_trip(const struct tcp_conn *c)
{
	uint32_t rtt = c->rcv_rtt ? c->rcv_rtt : tcp_usec(c->rtt.srtt);

	if (!rtt)
		rtt = RTT_UNKNOWN;
	return min_u32(max_u32(rtt, RTT_LEAST), RTT_MOST);
}

/*
 * At least half a buffer was read since tune_at. Does nothing within a round trip: a program that
 * sleeps and then empties the buffer at once is still a slow reader.
 */
void tcp_tune_read(struct tcp_conn *c, nsec_t now)
{
	uint32_t elapsed = tcp_usec(now) - c->tune_at, rtt = round_trip(c);
	uint64_t read;

	if (elapsed < rtt)
		return;
	read = (uint64_t)(read_seq(c) - c->tune_seq) * rtt / elapsed;
	tcp_tune_established(c, now);
	c->rcv_space = (uint32_t)read;
	if (c->flags & CONN_TIMESTAMPS)
		c->flags |= CONN_RTT_WANTED;
	/*
	 * Twice the doubled size, because the next round trip of a slow start brings twice as much.
	 */
	if (read >= c->rcvbuf / 2 && c->rcvbuf < c->rcvbuf_max)
		set_rcvbuf(c, read * 4 < c->rcvbuf_max ? (uint32_t)read * 4 : c->rcvbuf_max);
}

/* With CONN_RTT_WANTED: a data segment echoes a timestamp of ours, which gives a round trip. */
void tcp_tune_rtt(struct tcp_conn *c, const struct tcp_arrival *a, nsec_t now)
{
	uint32_t msec = tcp_ts_now(c, now) - a->opt.tsecr;

	/*
	 * Once, even without a result: otherwise small messages would take the slow path forever.
	 */
	c->flags &= ~(uint32_t)CONN_RTT_WANTED;
	if (a->pkt->len < c->rcv_mss || !a->opt.has_ts || !a->opt.tsecr)
		return;
	if (msec > RTT_MOST / PER_MSEC)
		return;
	msec = max_u32(msec, 1);
	if (c->rcv_rtt)
		c->rcv_rtt += msec * PER_MSEC / 8 - c->rcv_rtt / 8;
	else
		c->rcv_rtt = msec * PER_MSEC;
}

/* ---- sending ------------------------------------------------------------------------- */

void tcp_tune_full(struct tcp_conn *c)
{
	uint32_t want = 2 * c->cc.cwnd; /* at most 2^31 */

	if (want > c->sndbuf)
		c->sndbuf = min_u32(want, c->sndbuf_max);
}
