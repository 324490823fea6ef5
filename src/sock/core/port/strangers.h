/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Strangers: senders of datagrams to a connected socket that are not its peer.
 *
 * A port may steer a connected socket's frames by its local address and port alone
 * (port_ops.add_wide), and so brings those of strangers.  The kernel gets them by a raw socket,
 * and answers that there is no such port.  A ring goes on to give them to it until it is closed.
 */
#ifndef SOCK_CORE_PORT_STRANGERS_H
#define SOCK_CORE_PORT_STRANGERS_H

#include <stdbool.h>

#include "base/clock.h"

struct sock_flow;

/* As the kernel, which sends so many errors of ICMP: net.ipv4.icmp_msgs_per_sec, icmp_msgs_burst. */
#define STRANGERS_GAP NSEC_PER_MSEC
#define STRANGERS_BURST 50

/* Control lock, no ring held: a flow was added to its ring. */
void strangers_begin(const struct sock_flow *f);
/* holder of f->ring: a flow has moved there. */
void strangers_follow(const struct sock_flow *f);

/* pure: may one more datagram go to the kernel?  *due: 0 at first; any, atomic. */
bool strangers_may(nsec_t *due, nsec_t now);

#endif
