/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections in the table of local ports (struct xdp_steer_conn), which the program reads and
 * every member has mapped: some stores steer a connection, or end that.  An entry of a map would
 * take a system call each time.
 *
 * Role		holders of rings; sweeps: any member of the group.
 * Ordering	a member claims a place by changing owner from zero (or from the slot of
 *		a dead member), fills it in, and then sets READY.  The program
 *		(find_conn()) reads owner before and after the other fields.
 * Progress	lock-free.  A member that dies half-way leaves its slot in owner, and
 *		the sweep of the slot clears that.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/mman.h>

#include "ring/xdp/xdp_internal.h"

#define CONNS_LEN (XDP_STEER_PORTS * sizeof(struct xdp_steer_conn))

_Static_assert(XDP_STEER_SLOTS < XDP_STEER_OWNER, "an owner is a slot plus one");

int xdp_map_conns(struct xdp_port *port)
{
	struct xdp_map map = {0};
	int rc = xdp_map(&map, CONNS_LEN, port->local_ports_fd, 0);

	port->local_ports = map.addr;
	return rc;
}

void xdp_unmap_conns(struct xdp_port *port)
{
	if (port->local_ports)
		munmap(port->local_ports, CONNS_LEN);
	port->local_ports = NULL;
}

static uint32_t owner_of(const struct xdp_steer_conn *conn)
{
	/* acquire: pairs with the store of READY in xdp_conn_add() */
	return __atomic_load_n(&conn->owner, __ATOMIC_ACQUIRE);
}

/* Does the connection, whose owner is READY, have this key? */
static bool is_of(const struct xdp_steer_conn *conn, const struct xdp_steer_key5 *key)
{
	return __atomic_load_n(&conn->local, __ATOMIC_RELAXED) == key->local &&
	       __atomic_load_n(&conn->remote, __ATOMIC_RELAXED) == key->remote &&
	       __atomic_load_n(&conn->remote_port, __ATOMIC_RELAXED) == key->remote_port;
}

int xdp_conn_add(struct xdp_port *port, const struct xdp_steer_key5 *key, unsigned slot)
{
	struct xdp_steer_conn *conn = &port->local_ports[key->local_port];
	uint32_t owner;

	if (key->proto != IPPROTO_TCP)
		return -ENOSPC;
	owner = owner_of(conn);
	if (owner && !group_slot_is_dead(&port->group, (owner & XDP_STEER_OWNER) - 1))
		return owner & XDP_STEER_READY && is_of(conn, key) ? -EEXIST : -ENOSPC;
	/* Pairs with find_conn() of the program, which must see no READY while fields change. */
	if (!__atomic_compare_exchange_n(&conn->owner, &owner, slot + 1, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return -ENOSPC;
	__atomic_store_n(&conn->local, key->local, __ATOMIC_RELAXED);
	__atomic_store_n(&conn->remote, key->remote, __ATOMIC_RELAXED);
	__atomic_store_n(&conn->remote_port, key->remote_port, __ATOMIC_RELAXED);
	/* release: pairs with owner_of() and with find_conn() of the program */
	__atomic_store_n(&conn->owner, (slot + 1) | XDP_STEER_READY, __ATOMIC_RELEASE);
	return 0;
}

unsigned xdp_conn_find(const struct xdp_port *port, const struct xdp_steer_key5 *key)
{
	const struct xdp_steer_conn *conn = &port->local_ports[key->local_port];
	uint32_t owner = owner_of(conn);

	if (key->proto != IPPROTO_TCP || !(owner & XDP_STEER_READY) || !is_of(conn, key))
		return XDP_STEER_SLOTS;
	return (owner & XDP_STEER_OWNER) - 1;
}

/* Changes the owner of this key's connection, if that is `from`, to the word `to`. */
static int change_owner(struct xdp_port *port, const struct xdp_steer_key5 *key, unsigned from,
			uint32_t to)
{
	uint32_t owner = (from + 1) | XDP_STEER_READY;

	/* Pairs with owner_of() of other members and with find_conn() of the program. */
	if (xdp_conn_find(port, key) != from ||
	    !__atomic_compare_exchange_n(&port->local_ports[key->local_port].owner, &owner, to,
					 false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return -ENOENT;
	return 0;
}

int xdp_conn_move(struct xdp_port *port, const struct xdp_steer_key5 *key, unsigned from,
		  unsigned to)
{
	return change_owner(port, key, from, (to + 1) | XDP_STEER_READY);
}

int xdp_conn_del(struct xdp_port *port, const struct xdp_steer_key5 *key, unsigned slot)
{
	return change_owner(port, key, slot, 0);
}

void xdp_conns_clear(struct xdp_port *port, const uint8_t slots[XDP_STEER_SLOTS])
{
	for (unsigned i = 0; i < XDP_STEER_PORTS; i++) {
		struct xdp_steer_conn *conn = &port->local_ports[i];
		uint32_t owner = owner_of(conn), slot = (owner & XDP_STEER_OWNER) - 1;

		/* Pairs with owner_of() of other members, which may claim the place then. */
		if (owner && slot < XDP_STEER_SLOTS && slots[slot])
			__atomic_compare_exchange_n(&conn->owner, &owner, 0, false,
						    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	}
}
