/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * setsockopt(2), getsockopt(2) and getsockname(2) of all kinds of sockets.
 *
 * The twin takes every option first, so that the kernel checks it and reports errors.  Then
 * options that the library implements are copied into struct sock_options (opt_mirror.h,
 * struct sock_kind).  An option that only the kernel can serve makes the socket fall back to
 * the kernel, if no data has flowed yet (option_list.h).
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
 * getpeername(2) of a connection; has_peer is called by the holder of its home.  0; -ENOTCONN; as
 * sock_hold_cold().
 */
int sock_peer_name(struct sock_ref ref, bool (*has_peer)(struct inet_sock *so),
		   struct sockaddr *addr, socklen_t *len);

/*
 * Control lock: sets an option that only the kernel can serve.  The socket falls back to the
 * kernel if it still can, unless the kernel refuses the value or the value changes nothing.
 * 0 or -errno.
 */
int sock_option_to_kernel(struct inet_sock *so, int level, int name, const void *val,
			  socklen_t len);

#endif
