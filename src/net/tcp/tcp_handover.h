/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What another implementation of TCP has to know of a connection to go on with it.
 *
 * Role		pure; whoever holds the connection, which is not changed.
 *
 * Segments that came out of order are not told: the peer sends them again.
 */
#ifndef NET_TCP_TCP_HANDOVER_H
#define NET_TCP_TCP_HANDOVER_H

#include "net/tcp/tcp.h"

struct tcp_handover {
	uint32_t send_seq; /* of the first byte to send, which nobody has acknowledged */
	uint32_t read_seq; /* of the first byte to read; with a FIN that came: behind it, less bytes */
	uint32_t to_send; /* bytes */
	uint32_t sent;	  /* of these, at least once */
	uint32_t to_read; /* bytes */
	uint32_t snd_wl1, snd_wnd, snd_wnd_max;
	uint32_t rcv_wnd;
	uint32_t timestamp; /* that a segment of now would have */
	uint16_t mss;	    /* the peer's, options included */
	uint8_t snd_wscale, rcv_wscale;
	bool timestamps, sack, wscale; /* agreed */
	bool no_more_to_send;	       /* behind to_send there is our FIN */
	bool no_more_to_read; /* behind to_read there was the peer's, or the program said so */
};

/* False: there is no connection yet, or no more. */
bool tcp_handover_describe(const struct tcp_conn *c, nsec_t now, struct tcp_handover *h);

/* to_send bytes to send. */
void tcp_handover_copy_to_send(const struct tcp_conn *c, uint8_t *to);
/* to_read bytes to read. */
void tcp_handover_copy_to_read(const struct tcp_conn *c, uint8_t *to);

#endif
