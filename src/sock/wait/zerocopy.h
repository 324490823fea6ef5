/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls with MSG_ZEROCOPY, and with MSG_ERRQUEUE, on stream sockets of all kinds: core/msg/error_queue.h.
 *
 * Role		app, no ring held.
 */
#ifndef SOCK_WAIT_ZEROCOPY_H
#define SOCK_WAIT_ZEROCOPY_H

#include "sock/core/sock.h"

/*
 * A send with MSG_ZEROCOPY: the same send without it, by the socket's ops, and then its completion.  As
 * of struct sock_ops.
 */
ssize_t zerocopy_send(struct sock_ref ref, const struct msghdr *msg, int flags);

/* recvmsg(2) with MSG_ERRQUEUE, which never blocks: 0 or -errno. */
ssize_t zerocopy_read(struct sock_ref ref, struct msghdr *msg);

#endif
