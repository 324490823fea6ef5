/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The local port of a connection that the program did not bind.
 *
 * The kernel chooses one for bind(2) by looking through those that are taken: with
 * some thousand of them that costs more than all the rest of a connection.  So we
 * propose one, as connect(2) would (RFC 6056, algorithm 4: places of a secret hash
 * of the destination on, one after the other), and the twin reserves it: what is
 * taken is refused, and the next one is tried.
 *
 * Role		control lock.
 */
#ifndef SOCK_CORE_PORT_LOCAL_PORT_H
#define SOCK_CORE_PORT_LOCAL_PORT_H

#include "sock/core/inet_sock.h"

/*
 * Binds the twin to src and a free port, for a connection to `to` by this ring; so->local
 * becomes that.  -errno as of bind(2), which chooses where a proposal might not be what it
 * would choose: SO_REUSEADDR, no free one found soon.
 *
 * A bound twin stays bound, so a port whose pair of endpoints another process of the group
 * has (a TIME_WAIT that could not keep its port) is not proposed.  What is this process's
 * own is the caller's to find.
 */
int local_port_reserve(struct inet_sock *so, const struct ring *ring, const struct inaddr *src,
		       const struct endpoint *to);

#endif
