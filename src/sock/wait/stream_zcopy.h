/* SPDX-License-Identifier: BSD-2-Clause */
/* recvfrom_zcopy() of connections: what their kinds have in common (vma_extra.h). */
#ifndef SOCK_WAIT_STREAM_ZCOPY_H
#define SOCK_WAIT_STREAM_ZCOPY_H

#include <errno.h>
#include <sys/epoll.h>

#include "sock/core/extra/held.h"
#include "sock/core/inet_sock.h"
#include "sock/wait/wait.h"

/* What try gets. */
struct stream_zcopy {
	struct inet_sock *so;
	struct sock_zcopy *zcopy;
};

/*
 * app, no ring held: makes the call.  try takes packets into zcopy->msg.msg_iov[0], which has room for
 * one at least.  As recvfrom_zcopy(), with -errno.
 */
static inline __attribute__((always_inline)) ssize_t
stream_zcopy(struct sock_ref ref, struct sock_zcopy *zcopy, int flags, sock_try_fn *try)
{
	struct sock_call call = SOCK_CALL(ref, flags, EPOLLIN | EPOLLRDHUP);
	struct stream_zcopy z = {.so = inet_of(ref.sk), .zcopy = zcopy};

	if (zcopy->msg.msg_iov->iov_len < sizeof(struct held_record))
		return -ENOBUFS;
	zcopy->msg.msg_namelen = 0; /* as recvmsg(2) */
	return sock_wait_loop(call, SOCK_WAIT_COLD, try, NULL, &z);
}

#endif
