/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The local port of a connection that the program did not bind.
 *
 * When bind(2) chooses a port, the kernel searches those that are taken: with some thousand
 * of them that takes longer than all the rest of a connection.  So we propose a port as
 * connect(2) would (RFC 6056, algorithm 4: successive ports, starting at a secret hash of the
 * destination), and the twin reserves it.  The kernel refuses a port that is taken, and the
 * next one is proposed.
 *
 * Role		control lock.
 */
#ifndef SOCK_CORE_PORT_LOCAL_PORT_H
#define SOCK_CORE_PORT_LOCAL_PORT_H

#include "sock/core/inet_sock.h"

/*
 * Binds the twin to src and a free port, for a connection to `to` by this ring, and stores
 * both in so->local.  0, or -errno of bind(2).  The kernel chooses the port if the socket has
 * SO_REUSEADDR or SO_REUSEPORT, because then bind(2) would also accept a port that is taken,
 * and if some proposals in succession were taken.
 *
 * A bound twin cannot be bound again.  So a port is not proposed if another process of the
 * group uses it with the same endpoints (for a TIME_WAIT that could not keep its port).  For
 * this process the caller checks that.
 */
int local_port_reserve(struct inet_sock *so, const struct ring *ring, const struct inaddr *src,
		       const struct endpoint *to);

#endif
