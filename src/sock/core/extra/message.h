/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of a batch (<vma/vma.h>) as recvmsg(2) and sendmsg(2) have them.
 *
 * Role		any, pure.
 */
#ifndef SOCK_CORE_EXTRA_MESSAGE_H
#define SOCK_CORE_EXTRA_MESSAGE_H

#include <vma/vma.h>

/* iov is the header's, and is filled in, too. */
static inline struct msghdr message_header(const struct vma_message_t *message, struct iovec *iov)
{
	*iov = (struct iovec){message->data, message->size};
	return (struct msghdr){.msg_name = message->addr,
			       .msg_namelen = message->addr ? message->addr_len : 0,
			       .msg_iov = iov,
			       .msg_iovlen = 1};
}

#endif
