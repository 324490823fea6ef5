/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pacing of datagram sockets (SO_MAX_PACING_RATE), as the kernel's fq does it: a datagram that
 * may not leave yet waits in the send buffer.  While that is full, sends block or fail with
 * EAGAIN; EPOLLOUT comes back when half of it is free.  Datagrams leave in order; those that the
 * program has sent leave after it has closed the socket, too.
 *
 * Role		the holder of the socket's home ring; after the socket, that of ->ring.
 * Lifetime	made by the first paced send.  When the socket is closed, or the kernel
 *		serves it, an object with datagrams lives on until they have left.
 */
#ifndef SOCK_UDP_UDP_PACE_H
#define SOCK_UDP_UDP_PACE_H

#include "net/pace.h"
#include "sock/core/inet_sock.h"

/* A datagram (or a fragment) that waits. */
struct paced_frame {
	struct paced_frame *next;
	struct dst_hop hop;
	uint32_t len;
	uint8_t frame[];
};

struct udp_pace {
	struct timer timer;   /* of the home ring; armed while frames wait */
	struct inet_sock *so; /* NULL: it was closed */
	struct ring *ring;    /* without so: a reference */
	struct pace pace;
	struct paced_frame *head, *tail;
	uint32_t bytes; /* what they count against SO_SNDBUF */
};

/* What a frame counts against SO_SNDBUF. */
static inline uint32_t udp_pace_charge(uint32_t frame_len)
{
	return frame_len + (uint32_t)sizeof(struct paced_frame);
}

/* Do all sends have to look at it? */
static inline bool udp_is_paced(const struct inet_sock *so)
{
	return so->opt->pacing || (so->udp.pace && so->udp.pace->head);
}

/* Is the send buffer full?  As in the kernel, the last datagram may exceed it. */
static inline bool udp_pace_full(const struct inet_sock *so)
{
	return so->udp.pace && so->udp.pace->bytes >= so->opt->sndbuf;
}

/* Sends a complete frame now or later; consumes it.  dst has a ring. */
void udp_pace_put(struct inet_sock *so, struct ring *ring, struct dst *dst, struct pkt *pkt);
/* The options have changed. */
void udp_pace_changed(struct inet_sock *so);
/* The socket leaves its home, with what waits; then, on the new one: */
void udp_pace_leave(struct inet_sock *so, struct ring *ring);
void udp_pace_arrive(struct inet_sock *so, struct ring *ring);
/* Its interface is gone, and what waits with it. */
void udp_pace_lose(struct inet_sock *so, struct ring *ring);
void udp_pace_close(struct inet_sock *so, struct ring *ring);
/* In a forked child: what waits is the parent's. */
void udp_pace_fork_child(struct inet_sock *so);

/* The number of frames that wait: any, atomic. */
extern unsigned udp_pace_waiting;

#endif
