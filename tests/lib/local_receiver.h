/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that receive local datagrams or connections, made without the calls of the program.
 *
 * Role		no lock, no ring held.
 */
#ifndef TESTS_LIB_LOCAL_RECEIVER_H
#define TESTS_LIB_LOCAL_RECEIVER_H

#include "sock/core/inet_sock.h"
#include "sock/local/local_link.h"

/* Once, first: as sock_init(), of local connections only, with these handlers. */
void local_receiver_start(local_handler *const *handlers);

/* Binds the datagram socket fd, which the receiver has from then on.  NULL: it does not receive. */
struct inet_sock *local_receiver_open(int fd, const struct sockaddr *at, socklen_t len);
void local_receiver_close(struct inet_sock *so);

/*
 * Binds the stream socket fd, which the listener has from then on: as listen(2), with shared memory as
 * the only way.  NULL: it gets no connections.  sock_close() closes it, and not fd.
 */
struct inet_sock *local_listener_open(int fd, const struct sockaddr *at, socklen_t len,
				      unsigned backlog);

#endif
