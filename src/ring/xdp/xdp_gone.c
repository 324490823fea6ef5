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

#define LINKS_MAX 64
#define ADDRS_MAX 64 /* of one link */

struct link_list {
	int at[LINKS_MAX];
	unsigned n;
};

static void note_link(const struct link *link, void *arg)
{
	struct link_list *list = arg;

	if (list->n < LINKS_MAX)
		list->at[list->n++] = link->ifindex;
}

/* Are frames of the port for a link-local address of this interface: its own, its bond's? */
static bool is_link_of(const struct xdp_port *port, int ifindex)
{
	struct link own;

	return ifindex == port->base.ifindex ||
	       (!link_get(port->base.ifindex, &own) && own.master == ifindex);
}

/* Has the host, or for a link-local address the interface, an IPv6 address with this alias? */
static bool have_alias(const struct xdp_port *port, uint32_t alias)
{
	struct link_list links = {.n = 0};
	struct inaddr addrs[ADDRS_MAX];

	link_each(note_link, &links);
	for (unsigned i = 0; i < links.n; i++) {
		int n = link_addrs(links.at[i], addrs, ADDRS_MAX);
		bool near = is_link_of(port, links.at[i]);

		for (int a = 0; a < n && a < ADDRS_MAX; a++)
			if (!addr_is_v4(&addrs[a]) && (near || !addr_is_link_local6(&addrs[a])) &&
			    xdp_key_addr(port, &addrs[a]) == alias)
				return true;
	}
	return false;
}

static bool is_back(const struct xdp_port *port, uint32_t key)
{
	struct inaddr addr = addr_v4(key);

	return (addr.b[12] & 0xf0) == 0xf0 ? have_alias(port, key) : link_of_addr(&addr) != 0;
}

/* True: some are still gone. */
static bool remove_returned(const struct xdp_port *port)
{
	int map = port->gone_fd;
	uint32_t key, next;
	bool more = map_next(map, NULL, &next), left = false;

	while (more) {
		key = next;
		more = map_next(map, &key, &next);
		if (is_back(port, key))
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
		uint32_t key = xdp_key_addr(port, &gone[i]);

		map_update(port->gone_fd, &key, 1, BPF_ANY);
	}
	/* Pairs with redirect() of the program: cleared after the last address was removed. */
	if (!remove_returned(port) && locked)
		__atomic_store_n(&port->conf->gone, 0, __ATOMIC_SEQ_CST);
	if (locked)
		group_lock_release(g, &g->ctl->lock);
}
