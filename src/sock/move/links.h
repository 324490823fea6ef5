/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of links and addresses, and what sockets do about them.
 *
 *	an address is removed	its frames are dropped (port_ops.addrs_gone), its
 *				connections have no route, its listeners send nothing
 *	it comes back		connections and listeners continue, with the current routes
 *	a link changes		connections look up their routes and path sizes again
 *	a link is removed	its rings are retired (ring_retire()), sockets detach from it
 *	any of these		bound sockets follow their addresses; a connection without
 *				a route that has one now uses it, and moves to another ring
 *				or to the kernel if necessary
 *
 * Role		the internal thread, holding no ring and no lock, unless said otherwise.
 */
#ifndef SOCK_MOVE_LINKS_H
#define SOCK_MOVE_LINKS_H

#include "base/clock.h"
#include "net/addr.h"

/* Events from netlink; see struct netlink_events. */
void links_changed(int ifindex);
void links_addr(const struct endpoint *addr, bool present);

/* Has the host (a link-local address: the interface) lost the address, and may get it back soon? */
bool links_addr_expected(const struct endpoint *addr);

/* any: an interface was opened; its port must be told which addresses are gone. */
void links_new_port(void);

/* Once per round: handles the changes, as far as the control lock is free. */
void links_follow(nsec_t now);

/* In a forked child: forgets all changes. */
void links_forget(void);

#endif
