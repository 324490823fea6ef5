/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links and addresses that come, change and go, and what sockets do about it.
 *
 *	an address goes		its frames are dropped (port_ops.addrs_gone), its
 *				connections are mute, its listeners answer nothing
 *	it comes back		all of that goes on, by the routes there are now
 *	a link changes		connections find their ways and sizes anew
 *	a link is gone		its rings are retired (ring_retire()), sockets let go of it
 *	any of them		bound sockets follow their addresses; mute connections go
 *				where there is a way by now: another ring, or the kernel
 *
 * Role		the internal thread, holding no ring and no lock; others where it says so.
 */
#ifndef SOCK_MOVE_LINKS_H
#define SOCK_MOVE_LINKS_H

#include "base/clock.h"
#include "net/addr.h"

/* What netlink says; see struct netlink_events. */
void links_changed(int ifindex);
void links_addr(const struct inaddr *addr, bool present);

/* The host lost it, and may get it back soon. */
bool links_addr_expected(const struct inaddr *addr);

/* Any: an interface was taken; it has to hear which addresses are gone. */
void links_new_port(void);

/* Once per round: what there is to do, as far as the control lock is free. */
void links_follow(nsec_t now);

/* In a forked child. */
void links_forget(void);

#endif
