/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel knows of sockets, those of other programs, too: sock_diag(7).
 *
 * Role		any thread; no lock.  A host with many sockets takes long to answer.
 * Errors	-errno.  -EXDEV: as of netlink_ask.h; -ENOENT: the kernel does not tell of this
 *		protocol; -EPROTO: it says what cannot be.
 */
#ifndef NET_NETLINK_SOCK_DIAG_H
#define NET_NETLINK_SOCK_DIAG_H

#include "net/addr.h"

struct diag_query {
	uint8_t family, protocol; /* AF_INET, AF_INET6 */
	uint32_t states;	  /* of the kernel: 1 << TCP_ESTABLISHED and so on */
	uint16_t port;		  /* the local one; 0: all */
};

struct diag_socket {
	struct inaddr addr, peer_addr;
	uint16_t port, peer_port; /* in network order */
	int ifindex;		  /* that it is bound to, or 0 */
	uint32_t inode;
	uint64_t cookie; /* SO_COOKIE */
	bool v6only;	 /* IPV6_V6ONLY */
};

/*
 * Calls fn for each socket until it returns something else than 0, and returns that.  0: there are no more;
 * -EAGAIN: they have changed meanwhile.
 */
int diag_each(const struct diag_query *query,
	      int (*fn)(const struct diag_socket *socket, void *arg), void *arg);

/*
 * The cookie of the socket that gets a packet from there to there, which arrives by this interface: a UDP
 * datagram, or a segment of TCP, that of a new connection unless there is one.  0: there is no socket, or
 * the kernel does not say.  Both addresses are of one family.
 */
uint64_t diag_receiver(uint8_t protocol, const struct endpoint *from, const struct endpoint *to,
		       int ifindex);

#endif
