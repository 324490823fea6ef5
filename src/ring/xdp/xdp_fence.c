/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that gives up its privileges keeps its queues and the flows that it was granted
 * before.  It still writes the steering maps, as every member does.  But the program also looks
 * at two other maps, fences and grants, which say what a slot may get.  The process closes its
 * descriptors of these two maps, and of the map of AF_XDP sockets, and cannot get others without
 * the privileges.
 *
 * Role		xdp_grant(), xdp_fence(): one thread at a time (the control lock).
 *		xdp_may_have(): any.  xdp_unfence(): as open_queue.
 * Ordering	a slot is fenced before its process gives up anything.  It stays fenced
 *		until another process gets the slot, which removes the fence before it
 *		has a socket there.
 */
#include <errno.h>
#include <netinet/in.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "ring/xdp/xdp_entry.h"
#include "ring/xdp/xdp_internal.h"

struct grant {
	struct list link;
	struct flow_key
		key; /* a local address of 0: any of its family; a remote port of 0: any sender */
};

/* ---- the list of grants ---------------------------------------------------------------- */

static bool covers(const struct flow_key *grant, const struct flow_key *key)
{
	if (grant->proto != key->proto || grant->local_port != key->local_port)
		return false;
	if (grant->remote_port &&
	    (grant->remote_port != key->remote_port || !addr_eq(&grant->remote, &key->remote)))
		return false;
	if (addr_is_any(&grant->local))
		return addr_is_v4(&grant->local) == addr_is_v4(&key->local);
	return addr_eq(&grant->local, &key->local);
}

static bool is_listed(const struct xdp_port *port, const struct flow_key *key)
{
	list_for_each(link, &port->grants) {
		if (covers(&container_of(link, struct grant, link)->key, key))
			return true;
	}
	return false;
}

bool xdp_may_have(const struct xdp_port *port, const struct flow_key *key)
{
	/* acquire: pairs with xdp_fence(), after which the list does not change */
	return !__atomic_load_n(&port->fenced, __ATOMIC_ACQUIRE) || is_listed(port, key);
}

int xdp_grant(struct port *base, const struct flow_key *key)
{
	struct xdp_port *port = (struct xdp_port *)base;
	struct grant *grant;

	if (port->fenced)
		return -EPERM;
	if (is_listed(port, key))
		return 0;
	grant = mem_alloc(sizeof(*grant));
	if (!grant)
		return -ENOMEM;
	grant->key = *key;
	list_push_back(&port->grants, &grant->link);
	return 0;
}

static void free_grant(struct grant *grant)
{
	list_remove(&grant->link);
	mem_free(grant);
}

void xdp_grants_free(struct xdp_port *port)
{
	list_for_each_safe(link, &port->grants)
		free_grant(container_of(link, struct grant, link));
}

/* ---- the maps ---------------------------------------------------------------------------- */

static struct xdp_steer_grant entry_of(const struct xdp_port *port, const struct flow_key *key,
				       unsigned slot)
{
	return (struct xdp_steer_grant){
		.local = xdp_key_addr(port, &key->local),
		.remote = key->remote_port ? xdp_key_addr(port, &key->remote) : 0,
		.local_port = key->local_port,
		.remote_port = key->remote_port,
		.slot = (uint16_t)slot,
		.proto = key->proto,
	};
}

static int grant_slot(const struct xdp_port *port, const struct flow_key *key, unsigned slot)
{
	struct xdp_steer_grant entry = entry_of(port, key, slot);

	return map_update(port->grants_fd, &entry, slot, BPF_ANY);
}

/* Grants it to all queues of the port; -errno: not to all. */
static int grant_all(const struct xdp_port *port, const struct flow_key *key)
{
	int rc = 0;

	list_for_each(link, &port->queues) {
		const struct xdp_queue *q = container_of(link, struct xdp_queue, link);

		if (!rc)
			rc = grant_slot(port, key, q->slot);
	}
	return rc;
}

static int fence_all(const struct xdp_port *port)
{
	int rc = 0;

	list_for_each(link, &port->queues) {
		const struct xdp_queue *q = container_of(link, struct xdp_queue, link);
		uint32_t slot = q->slot;

		if (!rc)
			rc = map_update(port->fences_fd, &slot, 1, BPF_ANY);
	}
	return rc;
}

void xdp_fence(struct port *base)
{
	struct xdp_port *port = (struct xdp_port *)base;
	int rc;

	if (port->fenced)
		return;
	mutex_lock(&port->lock);
	rc = fence_all(port);
	if (rc)
		log_warn("%s: cannot restrict the rings of this process before it gives up its "
			 "privileges: %s",
			 base->name, strerrordesc_np(-rc));
	list_for_each_safe(link, &port->grants) {
		struct grant *grant = container_of(link, struct grant, link);

		if (!grant_all(port, &grant->key))
			continue;
		log_debug("%s: no room for more grants, a flow is refused", base->name);
		free_grant(grant);
	}
	sys_close_fd(&port->fences_fd);
	sys_close_fd(&port->grants_fd);
	sys_close_fd(&port->xsks_fd);
	xdp_group_stop_answering(port);
	/* release: pairs with xdp_may_have() */
	__atomic_store_n(&port->fenced, true, __ATOMIC_RELEASE);
	mutex_unlock(&port->lock);
}

void xdp_unfence(struct xdp_port *port, unsigned slot)
{
	uint32_t at = slot, fenced = 0;
	struct xdp_steer_grant entry, next;
	bool more;

	if (map_lookup(port->fences_fd, &at, &fenced) || !fenced)
		return;
	more = map_next(port->grants_fd, NULL, &next);
	while (more) {
		entry = next;
		more = map_next(port->grants_fd, &entry, &next);
		if (entry.slot == slot)
			map_delete(port->grants_fd, &entry);
	}
	map_update(port->fences_fd, &at, 0, BPF_ANY);
}
