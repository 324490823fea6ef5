/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses that the host has lost: the program drops frames to flows with these addresses.
 *
 * Netlink tells each member of the group, and each enters the addresses of its own flows.  Each
 * member removes addresses that are back, whichever member entered them: the last one to do so
 * has the latest news.
 */
#include "net/netlink/netlink.h"
#include "ring/xdp/xdp_entry.h"
#include "ring/xdp/xdp_internal.h"

/* True: some are still gone. */
static bool remove_returned(int map)
{
	uint32_t key, next;
	bool more = map_next(map, NULL, &next), left = false;

	while (more) {
		struct inaddr addr = addr_v4(next);

		key = next;
		more = map_next(map, &key, &next);
		if (link_of_addr(&addr))
			map_delete(map, &key);
		else
			left = true;
	}
	return left;
}

void xdp_addrs_gone(struct port *base, const struct inaddr *gone, unsigned n)
{
	struct xdp_port *port = (struct xdp_port *)base;
	struct xdp_group *g = &port->group;
	bool locked;

	/* Pairs with the stores below, by any member. */
	if (!n && !__atomic_load_n(&port->conf->gone, __ATOMIC_SEQ_CST))
		return;
	/* Not locked if a member that has it is stopped: conf->gone then stays 1, which is slow. */
	locked = group_lock_wait(g, &g->ctl->lock);
	/* Pairs with redirect() of the program: set before an address is entered. */
	__atomic_store_n(&port->conf->gone, 1, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < n; i++) {
		uint32_t key = addr_v4_of(&gone[i]);

		map_update(port->gone_fd, &key, 1, BPF_ANY);
	}
	/* Pairs with redirect() of the program: cleared after the last address was removed. */
	if (!remove_returned(port->gone_fd) && locked)
		__atomic_store_n(&port->conf->gone, 0, __ATOMIC_SEQ_CST);
	if (locked)
		group_lock_release(g, &g->ctl->lock);
}
