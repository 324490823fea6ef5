/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Strict: VMA_STRICT=1, or a rule `must`.  A call that needs the kernel for a socket that should
 * be accelerated fails, so that nobody takes a slow socket for a fast one.  What a rule gives to
 * the kernel, and addresses of this host, are not affected (verdict_is_fallback()).
 *
 * Role		control lock, no ring held.
 */
#ifndef SOCK_CORE_RULES_STRICT_H
#define SOCK_CORE_RULES_STRICT_H

#include <stdbool.h>

#include "base/conf/conf.h"
#include "sock/core/verdict.h"

struct inet_sock;
struct link;

/* any: does the socket as a whole have to be accelerated, and does it fall back with this verdict? */
bool strict_forbids(const struct inet_sock *so, enum verdict verdict);

/*
 * One use of the socket, about which the rules say `says`, has this verdict.  0: it is
 * accelerated, or the kernel may serve it.  Otherwise the call fails with -ENETUNREACH
 * (VERDICT_NO_ROUTE) or -EOPNOTSUPP, and the user is told, once for each socket.
 */
int strict_check(const struct inet_sock *so, enum conf_says says, enum verdict verdict);

/*
 * The socket is bound to 0.0.0.0, and this interface has this verdict.  If the kernel serves what
 * comes by it, that is no error, because others may be accelerated: the user is told, once for each
 * interface.
 */
void strict_warn_link(const struct inet_sock *so, enum conf_says says, const struct link *link,
		      enum verdict verdict);

/*
 * As sock_leave(), for a call of the program that cannot go on otherwise.  If strict_forbids() it,
 * the socket stays, and the result is that of strict_check().
 */
int sock_fall_back(struct inet_sock *so, enum verdict reason);

#endif
