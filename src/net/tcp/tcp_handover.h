/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What another TCP implementation (the kernel) needs to continue a connection.
 *
 * Role		pure; whoever holds the connection, which is not changed.
 *
 * Out-of-order segments are not included: the peer retransmits them.
 */
#ifndef NET_TCP_TCP_HANDOVER_H
#define NET_TCP_TCP_HANDOVER_H

#include "net/tcp/tcp.h"

struct tcp_handover {
	uint32_t send_seq; /* of the first byte to send, the first unacknowledged one */
	uint32_t read_seq; /* of the first byte to read; after a FIN: rcv_nxt less to_read */
	uint32_t to_send;  /* bytes */
	uint32_t sent;	   /* of these, sent at least once */
	uint32_t to_read;  /* bytes */
	uint32_t snd_wl1, snd_wnd, snd_wnd_max;
	uint32_t rcv_wnd;
	uint32_t timestamp; /* the timestamp that a segment sent now would have */
	uint16_t mss;	    /* the peer's MSS, options included */
	uint8_t snd_wscale, rcv_wscale;
	bool timestamps, sack, wscale; /* negotiated */
	bool no_more_to_send;	       /* our FIN follows to_send */
	bool no_more_to_read; /* the peer's FIN follows to_read, or the program shut down reading */
};

/* False if the connection is not established yet, or has ended. */
bool tcp_handover_describe(const struct tcp_conn *c, nsec_t now, struct tcp_handover *h);

/* Copies the to_send bytes to send. */
void tcp_handover_copy_to_send(const struct tcp_conn *c, uint8_t *to);
/* Copies the to_read bytes to read. */
void tcp_handover_copy_to_read(const struct tcp_conn *c, uint8_t *to);

#endif
