/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The address family of a socket: the one place where addresses of the program and of the twin
 * become endpoints, and endpoints become addresses.
 *
 * An AF_INET6 socket also has IPv4 traffic, with IPv4-mapped addresses (RFC 4291 2.5.5.2,
 * ipv6(7)), unless it is IPV6_V6ONLY.  Endpoints have this form in any case, so what is below
 * does not know the family of the socket, but that of its traffic.
 *
 * A link-local address of IPv6 is one on an interface, its scope (RFC 4007).  Endpoints of the
 * program have the scope that the program named, or that of the socket: as in the kernel, a socket
 * that is bound or connected to such an address is bound to its interface (SO_BINDTODEVICE) from
 * then on, see sock_follow_device().  What the program is told of its own socket has the scope of
 * the device, too.
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

/*
 * ep, an address of the socket itself or of its peer, as getsockname(2) and getpeername(2) have it.
 * holder, or control lock.
 */
static inline struct endpoint sock_addr_shown(const struct inet_sock *so, const struct endpoint *ep)
{
	struct endpoint shown = *ep;

	shown.scope = addr_needs_scope(&ep->addr) ? (uint32_t)so->opt->bind_ifindex : 0;
	return shown;
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

/* Control lock: has the socket, bound to no single address, IPv4 traffic? It may ask the kernel. */
bool sock_has_ipv4(const struct inet_sock *so);

/* Is traffic of the socket with this local address accelerated, if ipv4 is sock_has_ipv4()? */
static inline bool sock_serves(const struct inet_sock *so, const struct inaddr *local, bool ipv4)
{
	return addr_is_v4(local) ? ipv4 : so->family == AF_INET6;
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
 * Control lock: may a datagram or a connection to this address be accelerated? Otherwise the kernel
 * makes it, or refuses it: it does not send from an address of one family to one of the other.  oif:
 * by which interface, as far as the program has said so; 0: it has not.
 */
bool sock_may_reach(const struct inet_sock *so, const struct endpoint *to, int oif);

/*
 * Control lock: the twin was bound or connected, which binds it to the interface of a link-local
 * address: the options follow.  0 or -errno.
 */
int sock_follow_device(struct inet_sock *so);
/* Control lock: the device is another one, so its link-local addresses are those of that. */
void sock_follow_scope(struct inet_sock *so);
/*
 * Control lock: connect(2) to *to begins, and the kernel would bind the socket to the scope: so does
 * this.  *to gets the scope.  0; -EINVAL: there is none, or it contradicts the socket's device.
 */
int sock_bind_to_scope(struct inet_sock *so, struct endpoint *to);

#endif
