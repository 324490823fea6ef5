/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a ring keeps of connections that their programs have closed and that wait for
 * nothing but the peer's FIN, or for late segments (net/tcp/tcp_timewait.h): some hundred
 * bytes each, in place of the whole socket.
 *
 * Role		the holder of the ring, unless said otherwise.
 * Lifetime	until its time has come, a segment ended it, there are too many
 *		(net.ipv4.tcp_max_tw_buckets, the oldest goes), nobody can keep its
 *		port any more, or its ring is closed and the interface has no
 *		other.  One that still waits for the peer's FIN keeps its ring
 *		open, TIME_WAIT does not.
 * Ports	the port of a connection that began here is kept by a duplicate of
 *		the twin.  The kernel gives a port that nobody keeps to anybody,
 *		whose frames must not come here: without a keeper there is no
 *		TIME_WAIT.  An eighth of the descriptors that the process may
 *		have, and at most 4096, is spent on keepers; beyond it the oldest
 *		one of the ring ends.  A connection that lives on takes the keeper
 *		of the ring's oldest one where it gets no other; if there is none,
 *		its port is free while it lives.  The port of an accepted one is
 *		its listener's: it has no keeper, and stays.
 */
#ifndef SOCK_TCP_TIMEWAIT_H
#define SOCK_TCP_TIMEWAIT_H

#include "sock/core/inet_sock.h"
#include "sock/core/port/port_keeper.h"

/*
 * The connection, if it is due for it, is taken over: the caller frees the socket,
 * which is dead.  False: it goes on as it is.
 */
bool timewait_take(struct inet_sock *so, struct ring *ring);

/*
 * Before a connection of ours begins with this key: a flow of the ring has it.  0: the
 * TIME_WAIT was ended, the connection begins at *iss.  -EADDRNOTAVAIL.
 */
int timewait_reuse(struct ring *ring, struct flow *flow, uint32_t *iss, nsec_t now);

/*
 * Control lock, no ring held: nobody but TIME_WAITs uses the ring, which is about to be
 * closed.  They go to heir, another ring of the interface, or end when it is NULL; some
 * at a time, so that who uses heir does not wait for all.
 */
void timewait_vacate(struct ring *ring, struct ring *heir);

/*
 * Control lock, no ring held: the listener begins nothing any more, but others may accept at
 * its address, or the kernel does. A SYN that comes to a TIME_WAIT of one of its connections
 * would find no listener here, so they end.
 */
void timewait_listener_stops(const struct inet_sock *so);

/* In a forked child: they are the parent's. */
void timewait_forget(void);

/* Any, atomic. */
extern struct timewait_stats {
	unsigned now;	       /* how many there are */
	unsigned total, early; /* since the start; ended for want of room or of a keeper */
} timewait_stats;

/* any: for the log at exit. */
void timewait_log_stats(void);

/*
 * The descriptor that keeps the port of a connection whose program has closed it, if it is
 * worth one (see above), or PORT_KEEPER_NONE.  The ring's oldest TIME_WAIT may end for it.
 */
int timewait_keep_port(struct ring *ring, int twin);

#endif
