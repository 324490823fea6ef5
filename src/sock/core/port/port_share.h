/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports that several sockets share: who receives. Included by sock/core/inet_sock.h. */
#ifndef SOCK_CORE_PORT_PORT_SHARE_H
#define SOCK_CORE_PORT_PORT_SHARE_H

#include <stdbool.h>

struct inet_sock;

/*
 * Control lock: do sockets for which the kernel receives share the address and port of so?
 * Then the kernel must receive for so, too, or so would take their frames.
 */
bool sock_port_shared(struct inet_sock *so);
/* Control lock: likewise, of sockets that this process does not know. */
bool sock_port_foreign(struct inet_sock *so);

/*
 * Control lock: if the port may be shared, tells other processes that the library receives
 * for so (port_claim.h).  Call it before the kernel lists the port in /proc/net.  Does
 * nothing if it was done already.
 */
void sock_port_claim(struct inet_sock *so);
/* Control lock: the kernel receives for so from now on, or nothing does. */
void sock_port_unclaim(struct inet_sock *so);

/*
 * Control lock, called periodically: if a socket for which the kernel receives came later and
 * shares a port with one of ours (a second reader of a feed), the kernel receives for both
 * from now on.  True: such a socket was seen for the first time; call again soon.
 */
bool sock_ports_look(void);
/* Control lock: a socket has just fallen back to the kernel; those that share its port follow. */
void sock_ports_follow(void);
extern bool sock_ports_may_be_shared; /* control lock: SO_REUSE* was set on some socket */

#endif
