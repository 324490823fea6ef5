/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/rings.h"

#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "net/netlink.h"

#define FAILED_MAX 64

/* A port of this process, or the memory that it could not be opened. */
struct port_entry {
	int ifindex;
	struct port *port; /* NULL: failed */
	int error;
};

static port_open_fn open_port;
static struct port_entry ports[FAILED_MAX]; /* control lock */
static unsigned n_ports;
static struct ring *rings[RINGS_MAX]; /* control lock to write; read by all */
static unsigned n_rings;	      /* any, atomic: entries below it are set */
static struct ring nowhere;

void rings_init(port_open_fn fn)
{
	open_port = fn;
	ring_init(&nowhere, NULL, UINT32_MAX);
}

struct ring *rings_nowhere(void)
{
	return &nowhere;
}

unsigned rings_count(void)
{
	return __atomic_load_n(&n_rings, __ATOMIC_ACQUIRE); /* pairs with publish() */
}

struct ring *rings_at(unsigned i)
{
	return rings[i];
}

static void publish(struct ring *ring)
{
	rings[n_rings] = ring;
	__atomic_store_n(&n_rings, n_rings + 1, __ATOMIC_RELEASE); /* pairs with rings_count() */
}

static struct port_entry *find_port(int ifindex)
{
	for (unsigned i = 0; i < n_ports; i++) {
		if (ports[i].ifindex == ifindex)
			return &ports[i];
	}
	return NULL;
}

static int get_port(int ifindex, struct port **port, char why[PORT_WHY], bool *fresh)
{
	struct port_entry *entry = find_port(ifindex);

	*fresh = entry == NULL;
	if (!entry) {
		if (n_ports == FAILED_MAX) {
			snprintf(why, PORT_WHY, "More than %d interfaces are in use.\n",
				 FAILED_MAX);
			return -ENOSPC;
		}
		entry = &ports[n_ports++];
		entry->ifindex = ifindex;
		entry->port = NULL;
		entry->error = open_port(ifindex, &entry->port, why);
	}
	*port = entry->port;
	return entry->error;
}

static bool port_in_use(const struct port *port)
{
	for (unsigned i = 0; i < n_rings; i++) {
		if (rings[i]->q && rings[i]->q->port == port)
			return true;
	}
	return false;
}

/* Remembers that it failed, so that it is tried, and told, once. */
static int port_failed(int ifindex, int error)
{
	struct port_entry *entry = find_port(ifindex);

	if (port_in_use(entry->port))
		return error; /* it has no more for us, but what it has goes on */
	entry->port->ops->free_port(entry->port);
	entry->port = NULL;
	entry->error = error;
	return error;
}

int rings_get(int ifindex, uint64_t key, struct ring **ring, char why[PORT_WHY], bool *fresh)
{
	struct port_queue *q;
	struct port *port;
	struct ring *r;
	int rc;

	*fresh = false;
	for (unsigned i = 0; i < n_rings; i++) {
		r = rings[i];
		if (r->q && r->q->port->ifindex == ifindex && r->key == key) {
			*ring = r;
			return 0;
		}
	}
	if (n_rings == RINGS_MAX)
		return -ENOSPC;
	rc = get_port(ifindex, &port, why, fresh);
	if (rc)
		return rc;
	r = mem_aligned(64, sizeof(*r));
	if (!r)
		return -ENOMEM;
	rc = port->ops->open_queue(port, &q, why);
	if (rc) {
		mem_free(r);
		return port_failed(ifindex, rc);
	}
	ring_init(r, q, n_rings);
	r->key = key;
	r->addr = addr_v4_any();
	link_addrs(ifindex, &r->addr, 1);
	publish(r);
	*ring = r;
	return 0;
}

void rings_interface_changed(int ifindex)
{
	for (unsigned i = n_ports; i-- > 0;) {
		if (!ports[i].port &&
		    (ifindex == RINGS_ANY_INTERFACE || ports[i].ifindex == ifindex))
			ports[i] = ports[--n_ports];
	}
}

void rings_forget(void)
{
	__atomic_store_n(&n_rings, 0, __ATOMIC_RELEASE);
	n_ports = 0;
	ring_init(&nowhere, NULL, UINT32_MAX);
}

void rings_close_all(void)
{
	for (unsigned i = 0; i < n_rings; i++) {
		struct ring *r = rings[i];

		if (!r->q || !ring_hold_cold(r))
			continue;
		r->ops->close_queue(r->q);
		r->ops = &port_null_ops;
		r->q = NULL;
		ring_release_cold(r);
	}
	for (unsigned i = 0; i < n_ports; i++) {
		if (ports[i].port)
			ports[i].port->ops->free_port(ports[i].port);
	}
	n_ports = 0;
}
