/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two sockets of the kernel that are connected with each other, on this host.
 *
 * Role		any thread that may block for a moment.
 */
#ifndef SOCK_MOVE_KERNEL_PAIR_H
#define SOCK_MOVE_KERNEL_PAIR_H

#include "sock/core/msg/family.h"

/*
 * fds[0] is connected with fds[1]; both are new, close-on-exec, and the caller's.  name and peer are
 * addresses of this host, as getsockname(2) and getpeername(2) of fds[0] are to return them.  They do
 * where the process may make connections in repair mode; else only the addresses are right: fds[0] has
 * a port that the kernel chooses, and so has its peer.  0 or -errno.
 */
int kernel_pair(const struct sock_addr *name, const struct sock_addr *peer, int fds[2]);

/*
 * As kernel_pair(), where fd, a TCP socket of name's family that is not connected, becomes fds[0].  It may
 * be bound, to name or to its port, and non-blocking, and has the options that it had.  Returns
 * fds[1]; -errno, and fd is not connected.
 */
int kernel_pair_join(int fd, const struct sock_addr *name, const struct sock_addr *peer);

/*
 * A socket that is connected with a listener at `to` on this host, close-on-exec, and the caller's.  Its own
 * address is that of from, also the port where the process may bind it in repair mode.  -ETIMEDOUT: its
 * queue is full; -errno.
 */
int kernel_pair_connect(const struct sock_addr *from, const struct sock_addr *to);

#endif
