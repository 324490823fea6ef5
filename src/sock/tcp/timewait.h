/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small records of connections that their programs have closed and that wait for nothing but the
 * peer's FIN (FIN_WAIT_2) or for late segments (TIME_WAIT), see net/tcp/tcp_timewait.h.  A ring
 * keeps such a record, of some hundred bytes, in place of the whole socket.
 *
 * Role		the holder of the ring, unless said otherwise.
 * Lifetime	a record ends when its time is over; when a segment ends it; when there
 *		are too many (net.ipv4.tcp_max_tw_buckets: the oldest one ends); when its
 *		port cannot be kept any longer; when its ring closes and the interface
 *		has no other ring.  A FIN_WAIT_2 record keeps its ring open, a TIME_WAIT
 *		record does not.
 * Ports		a duplicate of the twin (the keeper) keeps the port of a connection that
 *		began here.  A port without a keeper may be given to any socket by the
 *		kernel, and the frames of that socket must not come here; so there is no
 *		TIME_WAIT without a keeper.  Records use an eighth of the descriptors that
 *		the process may have, at most 4096; beyond that the oldest record of the
 *		ring that has a keeper ends.  Orphans may use more (KEEPERS_ALIVE eighths).  An orphan that gets no other descriptor
 *		takes the keeper of the ring's oldest record; if there is none, its port
 *		is free while the orphan lives.  An accepted connection uses the port of
 *		its listener: it needs no keeper, and its record stays.
 */
#ifndef SOCK_TCP_TIMEWAIT_H
#define SOCK_TCP_TIMEWAIT_H

#include "sock/core/inet_sock.h"
#include "sock/core/port/port_keeper.h"

/*
 * Replaces a connection by a record if it has come that far; by nothing if there is no room, no
 * memory, or no keeper.  True: the caller must free the socket, whose connection is over.  False:
 * nothing has changed.
 */
bool timewait_take(struct inet_sock *so, struct ring *ring);

/*
 * A connection of ours begins and finds its key used by flow. 0: the flow was a TIME_WAIT, which
 * has ended; the connection must begin at sequence number *iss. -EADDRNOTAVAIL: the key is in
 * use.
 */
int timewait_reuse(struct ring *ring, struct flow *flow, uint32_t *iss, nsec_t now);

/*
 * Control lock, no ring held: the ring is about to be closed and only TIME_WAIT records use it.
 * Hands them over to `other`, another ring of the interface; NULL: ends them. Works in steps, so
 * that users of `other` do not wait for all records.
 */
void timewait_leave_ring(struct ring *ring, struct ring *other);

/*
 * Control lock, no ring held: the listener accepts no new connections, but other processes or the
 * kernel may accept at its address. Ends the TIME_WAIT records of its connections, because a SYN
 * that arrives at one of them would find no listener here.
 */
void timewait_listener_stops(const struct inet_sock *so);

/* In a forked child: resets the counters, because the records belong to the parent. */
void timewait_forget(void);

/* any, atomic. */
extern struct timewait_stats {
	unsigned now;	       /* current number of records */
	unsigned total, early; /* since the start; early: ended for lack of room or of a keeper */
} timewait_stats;

/* any: writes the counters to the log, at exit. */
void timewait_log_stats(void);

/*
 * A descriptor that keeps the port of a connection that the program has closed, or
 * PORT_KEEPER_NONE if the limit is reached (see Ports). May end the ring's oldest record that has
 * a keeper.
 */
int timewait_keep_port(struct ring *ring, int twin);

#endif
