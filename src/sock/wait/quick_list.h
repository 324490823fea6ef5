/* SPDX-License-Identifier: BSD-2-Clause */
/* The quick calls of a protocol and a thread mode (quick.h), as lists for the preprocessor. */
#ifndef SOCK_WAIT_QUICK_LIST_H
#define SOCK_WAIT_QUICK_LIST_H

#include <sys/socket.h>

#include "sock/core/sock.h"

/* Declarations, and members of struct sock_ops, of QUICK_SENDS() and of QUICK_CALLS(). */
#define QUICK_SENDS_DECLARE(prefix, name)                                              \
	ssize_t prefix##_send_##name(int fd, const void *buf, size_t len, int flags,   \
				     struct sock_ref ref);                             \
	ssize_t prefix##_sendto_##name(int fd, const void *buf, size_t len, int flags, \
				       const struct sockaddr *to, socklen_t to_len,    \
				       struct sock_ref ref);
#define QUICK_SENDS_OPS(prefix, name) \
	.quick_send = prefix##_send_##name, .quick_sendto = prefix##_sendto_##name

#define QUICK_DECLARE(prefix, name)                                                  \
	QUICK_SENDS_DECLARE(prefix, name)                                            \
	ssize_t prefix##_recv_##name(int fd, void *buf, size_t len, int flags,       \
				     struct sock_ref ref);                           \
	ssize_t prefix##_recvfrom_##name(int fd, void *buf, size_t len, int flags,   \
					 struct sockaddr *from, socklen_t *from_len, \
					 struct sock_ref ref);
#define QUICK_OPS(prefix, name)                                            \
	QUICK_SENDS_OPS(prefix, name), .quick_recv = prefix##_recv_##name, \
				       .quick_recvfrom = prefix##_recvfrom_##name

/* Of QUICK_LOOK(). */
#define QUICK_LOOK_DECLARE(prefix, name) \
	ssize_t prefix##_recvmsg_##name(struct sock_ref ref, struct msghdr *msg, int flags);

#endif
