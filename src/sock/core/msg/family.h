/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The address family of a socket: the one place where addresses of the program and of the twin
 * become endpoints, and endpoints become addresses.
 *
 * An AF_INET6 socket also has IPv4 traffic, with IPv4-mapped addresses (RFC 4291 2.5.5.2,
 * ipv6(7)), unless it is IPV6_V6ONLY.  Endpoints have this form in any case, so what is below
 * does not know the family.  Only the IPv4 traffic is accelerated.  IPv6 traffic is the
 * twin's: connections that it accepts, datagrams that it receives and sends.
 *
 * Role		any, unless said otherwise; inet_sock.family does not change.
 */
#ifndef SOCK_CORE_MSG_FAMILY_H
#define SOCK_CORE_MSG_FAMILY_H

#include "sock/core/inet_sock.h"

/* A socket address of one of the two families. */
struct sock_addr {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	};
	socklen_t len;
};

/*
 * False: not a complete address, or not one that the kernel accepts as the destination of a
 * datagram.  (An AF_INET6 socket may name an AF_INET address.)  *ep may be an IPv6 address.
 */
static inline bool sock_addr_read(const struct inet_sock *so, struct endpoint *ep,
				  const struct sockaddr *sa, socklen_t len)
{
	return endpoint_from_sin(ep, sa, len) ||
	       (so->family == AF_INET6 && endpoint_from_sin6(ep, sa, len));
}

/* What the program is told: as endpoint_to_sockaddr(). */
static inline void sock_addr_write(const struct inet_sock *so, const struct endpoint *ep,
				   struct sockaddr *sa, socklen_t *len)
{
	endpoint_to_sockaddr(ep, so->family, sa, len);
}

/* The address of an unbound socket: 0.0.0.0, or ::, which includes it. */
static inline struct inaddr sock_addr_any(const struct inet_sock *so)
{
	return so->family == AF_INET6 ? (struct inaddr){.q = {0, 0}} : addr_v4_any();
}

/* ep as an address of the twin's family. */
struct sock_addr sock_addr_of(const struct inet_sock *so, const struct endpoint *ep);
/* Of a new object: its family is that of the twin, which comes from another process. */
void sock_family_init(struct inet_sock *so, int twin);

/* bind(2) of the twin, and to any address and port; connect(2).  0 or -errno. */
int sock_twin_bind(const struct inet_sock *so, const struct endpoint *ep);
int sock_twin_bind_any(const struct inet_sock *so);
int sock_twin_connect(const struct inet_sock *so, const struct endpoint *ep);

/*
 * Control lock: has the socket, bound to so->local or not at all, IPv4 traffic?
 * VERDICT_ACCELERATED; VERDICT_FAMILY: no, it has an IPv6 address, or IPV6_V6ONLY.
 */
enum verdict sock_family_verdict(const struct inet_sock *so);

#endif
