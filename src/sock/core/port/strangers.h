/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Strangers: senders of frames that a port brings and nothing here expects.  The kernel gets their
 * frames by a raw socket, and answers them.
 *
 * A port may steer a connected socket's frames by its local address and port alone
 * (port_ops.add_wide), and so brings datagrams that are not from its peer.  The kernel answers that
 * there is no such port.  A ring goes on to give them to it until it is closed.
 *
 * Segments of TCP: see kernel_conns.h.
 */
#ifndef SOCK_CORE_PORT_STRANGERS_H
#define SOCK_CORE_PORT_STRANGERS_H

#include <stdbool.h>

#include "base/clock.h"

struct pkt;
struct ring;
struct sock_flow;

/* As the kernel, which sends so many errors of ICMP: net.ipv4.icmp_msgs_per_sec, icmp_msgs_burst. */
#define STRANGERS_GAP NSEC_PER_MSEC
#define STRANGERS_BURST 50

/* Control lock, no ring held: a flow was added to its ring. */
void strangers_begin(const struct sock_flow *f);
/* holder of f->ring: a flow has moved there. */
void strangers_follow(const struct sock_flow *f);

/* Control lock: opens the raw socket of a family, if it is not.  False: without CAP_NET_RAW. */
bool strangers_open(bool ipv4);
/*
 * holder, after strangers_open(): gives the kernel a frame that arrived at the ring, and frees it.  False:
 * the kernel has no room, or the raw socket is not open; pkt remains the caller's.
 */
bool strangers_give(const struct ring *ring, struct pkt *pkt);
/* In a forked child, whose hidden descriptors are closed. */
void strangers_forget(void);

/* pure: may one more frame go to the kernel?  *due: 0 at first; any, atomic. */
bool strangers_may(nsec_t *due, nsec_t now);

#endif
