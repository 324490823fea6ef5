/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is left of a connection whose program has closed it and whose FIN was
 * acknowledged: FIN-WAIT-2 and TIME-WAIT (RFC 9293 section 3.3.2) without data,
 * windows and estimates.  It answers what still comes, and delivers nothing.
 *
 * Role		pure, as the rest of the engine; the holder of the ring.
 * Lifetime	embedded in its owner, from tcp_timewait_begin() until an answer
 *		says that it is over, or until its time has come.  There is
 *		nothing to give back.
 * Clock	callers pass now.
 */
#ifndef NET_TCP_TCP_TIMEWAIT_H
#define NET_TCP_TCP_TIMEWAIT_H

#include "net/tcp/tcp.h"

struct tcp_timewait {
	nsec_t until; /* then it is over; a repeated FIN moves it */
	uint32_t snd_nxt;
	uint32_t rcv_nxt;
	uint32_t rcv_edge;
	uint32_t ts_recent; /* RFC 7323 section 4.3 */
	uint32_t ts_offset;
	uint32_t ts_recent_at; /* msec; wraps */
	uint32_t challenge_at; /* msec; when what may be a loop was answered last */
	uint16_t wnd;	       /* as in the header */
	uint8_t flags;	       /* of tcp_timewait.c */
};

_Static_assert(sizeof(struct tcp_timewait) <= 40, "there may be a hundred thousand of them");

/*
 * May it be made of this connection: closed by its program, waiting for the peer's
 * FIN or for nothing, with nothing that is due?
 */
bool tcp_timewait_due(const struct tcp_conn *conn);

/*
 * Takes the connection's place, which is CLOSED afterwards, without a report, and
 * has given everything back.
 */
void tcp_timewait_begin(struct tcp_timewait *tw, struct tcp_conn *conn);

/* FIN-WAIT-2: the peer may still send its FIN. */
bool tcp_timewait_half(const struct tcp_timewait *tw);

struct tcp_timewait_answer {
	bool send; /* seg, now */
	bool over; /* it is: nothing of it counts any more */
	struct tcp_segment seg;
};

/*
 * A segment of the peer, which stays the caller's.  DROP_NONE: it was wanted.
 * DROP_NO_FLOW, and over: a SYN that begins a new connection, for a listener.  Where nobody
 * listens, seg is the answer to it.
 */
enum drop tcp_timewait_input(struct tcp_timewait *tw, struct pkt *pkt,
			     struct tcp_timewait_answer *answer, nsec_t now);

/*
 * May we ourselves begin a new connection of the pair?  Only where timestamps tell
 * the old one's segments from its own: RFC 6191 seen from the other side, what
 * net.ipv4.tcp_tw_reuse allows.
 */
bool tcp_timewait_reusable(const struct tcp_timewait *tw, nsec_t now);
/* Where it begins then: beyond all that the old one could have in the network. */
uint32_t tcp_timewait_next_iss(const struct tcp_timewait *tw);

#endif
