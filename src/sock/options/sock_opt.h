/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * setsockopt(2), getsockopt(2) and getsockname(2) of all kinds of sockets.
 *
 * The twin takes every option first: its checks and errors are the kernel's.  Then what acts
 * on our frames is mirrored (opt_mirror.h, struct sock_kind); what only the kernel can serve
 * sends the socket back to it before data flows (option_list.h).
 *
 * Role		app, no ring held, unless said otherwise.
 * Errors	-errno, or SOCK_KERNEL: the twin answers.
 */
#ifndef SOCK_OPTIONS_SOCK_OPT_H
#define SOCK_OPTIONS_SOCK_OPT_H

#include "sock/core/inet_sock.h"

int sock_setsockopt(struct sock_ref ref, int level, int name, const void *val, socklen_t len);
int sock_getsockopt(struct sock_ref ref, int level, int name, void *val, socklen_t *len);
int sock_getsockname(struct sock_ref ref, struct sockaddr *addr, socklen_t *len);

/*
 * Control lock: an option that only the kernel can serve.  Before data flows the socket goes
 * there.  A value that the kernel would not take, or that changes nothing, is no reason to.
 */
int sock_option_to_kernel(struct inet_sock *so, int level, int name, const void *val,
			  socklen_t len);

#endif
