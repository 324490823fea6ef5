/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state that remains of a connection after the program has closed it and its FIN was
 * acknowledged: FIN-WAIT-2 and TIME-WAIT (RFC 9293 section 3.3.2) without data, windows and
 * estimates.  It answers segments, and delivers nothing.
 *
 * Role		pure, as the rest of the engine; the holder of the ring.
 * Lifetime	embedded in its owner, from tcp_timewait_begin() until an answer has
 *		`over` set, or until its time has passed.  There is nothing to free.
 * Clock	callers pass now.
 */
#ifndef NET_TCP_TCP_TIMEWAIT_H
#define NET_TCP_TCP_TIMEWAIT_H

#include "net/tcp/tcp.h"

struct tcp_timewait {
	nsec_t until; /* time of its end; a repeated FIN extends it */
	uint32_t snd_nxt;
	uint32_t rcv_nxt;
	uint32_t rcv_edge;
	uint32_t ts_recent; /* RFC 7323 section 4.3 */
	uint32_t ts_offset;
	uint32_t ts_recent_at; /* msec; wraps */
	uint32_t challenge_at; /* msec; time of the last answer that might cause a loop */
	uint16_t wnd;	       /* window field as sent */
	uint8_t flags;	       /* see tcp_timewait.c */
};

_Static_assert(sizeof(struct tcp_timewait) <= 40, "there may be a hundred thousand of them");

/*
 * True if this connection can be replaced: closed by the program, waiting for the peer's FIN or for
 * nothing, with no timer or segment due.
 */
bool tcp_timewait_due(const struct tcp_conn *conn);

/* Replaces the connection, which becomes CLOSED without a callback and frees everything. */
void tcp_timewait_begin(struct tcp_timewait *tw, struct tcp_conn *conn);

/* True in FIN-WAIT-2: the peer may still send its FIN. */
bool tcp_timewait_half(const struct tcp_timewait *tw);

struct tcp_timewait_answer {
	bool send; /* send seg now */
	bool over; /* the state has ended and may be removed */
	struct tcp_segment seg;
};

/*
 * Processes a segment of the peer; the caller keeps pkt. DROP_NONE: the segment was valid.
 * DROP_NO_FLOW with `over`: a SYN that begins a new connection, for a listener. If no socket
 * listens, send seg as the answer.
 */
enum drop tcp_timewait_input(struct tcp_timewait *tw, struct pkt *pkt,
			     struct tcp_timewait_answer *answer, nsec_t now);

/*
 * True if we may open a new connection of the same pair. Timestamps must tell old segments from new
 * ones: RFC 6191 from the other side, as net.ipv4.tcp_tw_reuse.
 */
bool tcp_timewait_reusable(const struct tcp_timewait *tw, nsec_t now);
/* The ISS of that connection: beyond all segments of the old one that may be in the network. */
uint32_t tcp_timewait_next_iss(const struct tcp_timewait *tw);

#endif
