/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows as entries of the steering maps.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <string.h>

#include "base/sys.h"
#include "ring/xdp/xdp_entry.h"
#include "ring/xdp/xdp_internal.h"

/* A flow's map and its key there. */
struct entry {
	int map;
	union {
		struct xdp_steer_key3 key3;
		struct xdp_steer_key5 key5;
	};
	bool is5;
	struct xdp_steer_exact exact; /* IPv4: zero */
};

#define BATCH 128u

/* Some entries of a map. */
struct batch {
	uint8_t keys[BATCH * sizeof(struct xdp_steer_exact)]; /* the largest */
	uint32_t values[BATCH];
	uint32_t count;
	uint32_t out; /* the position after them */
};

/* Reads entries from position `in` (NULL: the first) on.  -ENOENT: these are the last ones. */
static int map_lookup_batch(int map, const uint32_t *in, struct batch *b)
{
	union bpf_attr attr;
	int rc;

	memset(&attr, 0, sizeof(attr)); /* the kernel checks the bytes after .batch, too */
	attr.batch.in_batch = (uintptr_t)in;
	attr.batch.out_batch = (uintptr_t)&b->out;
	attr.batch.keys = (uintptr_t)b->keys;
	attr.batch.values = (uintptr_t)b->values;
	attr.batch.count = BATCH;
	attr.batch.map_fd = (uint32_t)map;
	rc = sys_bpf(BPF_MAP_LOOKUP_BATCH, &attr, sizeof(attr));
	b->count = rc && rc != -ENOENT ? 0 : attr.batch.count;
	return rc;
}

static struct entry entry_of(const struct xdp_port *port, const struct flow_key *key)
{
	struct entry entry = {.is5 = key->remote_port != 0, .exact = xdp_exact_of(key)};
	struct entry *e = &entry;

	if (e->is5) {
		e->map = port->flows5_fd;
		e->key5 = (struct xdp_steer_key5){
			.local = xdp_key_addr(port, &key->local),
			.remote = xdp_key_addr(port, &key->remote),
			.local_port = key->local_port,
			.remote_port = key->remote_port,
			.proto = key->proto,
		};
	} else {
		e->map = port->flows3_fd;
		e->key3 = xdp_key3_of(port, key);
	}
	return entry;
}

/* Changes the number of entries of a map; the program skips the map while this is zero. */
static void count(uint32_t *entries, uint32_t by)
{
	/* Pairs with find_entry() of the program, and with find_entry() and clear_map() here. */
	__atomic_fetch_add(entries, by, __ATOMIC_SEQ_CST);
}

/* ---- exact flows: IPv6 ------------------------------------------------------------------ */

struct xdp_steer_exact xdp_exact_of(const struct flow_key *key)
{
	struct xdp_steer_exact exact = {.local_port = key->local_port, .proto = key->proto};

	if (addr_is_v4(&key->local))
		return (struct xdp_steer_exact){.proto = 0};
	memcpy(exact.local, &key->local, sizeof(exact.local));
	if (key->remote_port) {
		memcpy(exact.remote, &key->remote, sizeof(exact.remote));
		exact.remote_port = key->remote_port;
	}
	return exact;
}

int xdp_exact_set(struct xdp_port *port, const struct xdp_steer_exact *exact, uint32_t value,
		  bool *added)
{
	int rc;

	*added = false;
	if (!exact->proto)
		return 0;
	count(&port->conf->flows6, 1);
	rc = map_update(port->exact_fd, exact, value, BPF_NOEXIST);
	*added = !rc;
	if (rc)
		count(&port->conf->flows6, -1u);
	if (rc == -EEXIST)
		rc = map_update(port->exact_fd, exact, value, BPF_EXIST);
	return rc == -E2BIG ? -ENOSPC : rc;
}

void xdp_exact_drop(struct xdp_port *port, const struct xdp_steer_exact *exact, uint32_t value)
{
	uint32_t is;

	if (exact->proto && !map_lookup(port->exact_fd, exact, &is) && is == value &&
	    !map_delete(port->exact_fd, exact))
		count(&port->conf->flows6, -1u);
}

/* The flow's entry names the queue now. */
static int exact_moved(struct xdp_port *port, const struct entry *e, unsigned slot)
{
	bool added;

	return xdp_exact_set(port, &e->exact, slot, &added);
}

/* ---- entries ----------------------------------------------------------------------------- */

static void count_flows5(struct xdp_port *port, uint32_t by)
{
	count(&port->conf->flows5, by);
}

/*
 * The map has the key already.  If the process of its slot died, and the sweep has not noticed
 * yet, this replaces the entry: a server that restarts at once gets its port.
 */
static int replace_dead(struct xdp_port *port, const struct entry *e, unsigned slot)
{
	struct xdp_group *g = &port->group;
	uint32_t old;
	int rc = -EEXIST;

	/* With the lock, the sweep does not delete the entry that replaces the old one. */
	if (!group_lock_wait(g, &g->ctl->lock))
		return rc;
	if (map_lookup(e->map, &e->key3, &old)) {
		rc = map_update(e->map, &e->key3, slot, BPF_NOEXIST); /* removed meanwhile */
	} else if (old & XDP_STEER_SHARED ? xdp_share_is_dead(port, old)
					  : group_slot_is_dead(g, old)) {
		rc = map_update(e->map, &e->key3, slot, BPF_EXIST);
		if (!rc && e->is5)
			count_flows5(port, -1u); /* the dead process counted the entry, too */
	}
	group_lock_release(g, &g->ctl->lock);
	return rc;
}

/* The slot in the map's entry; XDP_STEER_SLOTS: no entry, or a share. */
static unsigned find_entry(const struct xdp_port *port, const struct entry *e)
{
	uint32_t slot; /* or XDP_STEER_SHARED and a share */

	/* Like the program: no system call when the map is empty.  Pairs with count(). */
	if (e->is5 && !__atomic_load_n(&port->conf->flows5, __ATOMIC_SEQ_CST))
		return XDP_STEER_SLOTS;
	if (map_lookup(e->map, &e->key3, &slot) || slot > XDP_STEER_SLOTS)
		return XDP_STEER_SLOTS;
	return slot;
}

/* Adds a connection to the table of local ports.  -ENOSPC: it needs an entry of the map. */
static int add_conn(struct xdp_port *port, const struct entry *e, unsigned slot)
{
	unsigned other;

	if (e->key5.proto != IPPROTO_TCP)
		return -ENOSPC;
	other = find_entry(port, e);
	if (other < XDP_STEER_SLOTS)
		return group_slot_is_dead(&port->group, other) ? -ENOSPC : -EEXIST;
	return xdp_conn_add(port, &e->key5, slot);
}

static int add_entry(struct xdp_port *port, const struct entry *e, unsigned slot)
{
	int rc;

	if (e->is5) {
		rc = add_conn(port, e, slot);
		if (rc != -ENOSPC)
			return rc;
		count_flows5(port, 1);
	} else {
		xdp_kernel_set(port, &e->key3, slot);
	}
	rc = map_update(e->map, &e->key3, slot, BPF_NOEXIST);
	if (rc == -EEXIST)
		rc = replace_dead(port, e, slot);
	if (rc && e->is5)
		count_flows5(port, -1u);
	return rc == -E2BIG ? -ENOSPC : rc;
}

/* First the exact flow: with the entry alone, the kernel would get the frames. */
static int add_exact(struct xdp_port *port, const struct entry *e, unsigned slot)
{
	uint32_t old;
	bool had = !map_lookup(port->exact_fd, &e->exact, &old), added = false;
	int rc = had ? 0 : xdp_exact_set(port, &e->exact, slot, &added);

	if (!rc)
		rc = add_entry(port, e, slot);
	if (!rc && had) /* of a dead process, or of a share that had the flow */
		return exact_moved(port, e, slot);
	if (rc && added)
		xdp_exact_drop(port, &e->exact, slot);
	return rc;
}

int xdp_add_flow(struct port_queue *base, const struct flow_key *key)
{
	struct xdp_queue *q = (struct xdp_queue *)base;
	struct xdp_port *port = (struct xdp_port *)base->port;
	struct entry e = entry_of(port, key);

	if (!xdp_may_have(port, key))
		return -ENOSPC;
	return e.exact.proto ? add_exact(port, &e, q->slot) : add_entry(port, &e, q->slot);
}

bool xdp_slot_is_ours(const struct xdp_port *port, unsigned slot)
{
	const struct xdp_group *g = &port->group;

	return slot < XDP_STEER_SLOTS && g->ctl->slots[slot].member == g->member &&
	       !group_slot_is_dead(g, slot);
}

/* The slot with the connection in the table of local ports, if any. */
static unsigned conn_slot(const struct xdp_port *port, const struct entry *e)
{
	return e->is5 ? xdp_conn_find(port, &e->key5) : XDP_STEER_SLOTS;
}

static int move_entry(struct xdp_port *port, const struct entry *e, unsigned to)
{
	unsigned from = conn_slot(port, e);

	if (xdp_slot_is_ours(port, from))
		return xdp_conn_move(port, &e->key5, from, to);
	if (!xdp_slot_is_ours(port, find_entry(port, e)))
		return -ENOENT;
	if (!e->is5)
		xdp_kernel_move(port, &e->key3, to);
	return map_update(e->map, &e->key3, to, BPF_EXIST);
}

int xdp_move_flow(struct port_queue *base, const struct flow_key *key)
{
	struct xdp_queue *q = (struct xdp_queue *)base;
	struct xdp_port *port = (struct xdp_port *)base->port;
	struct entry e = entry_of(port, key);
	int rc = move_entry(port, &e, q->slot);

	return rc ? rc : exact_moved(port, &e, q->slot);
}

/* The slot that gets the frames by an entry, in whichever table it is. */
static unsigned slot_of(const struct xdp_port *port, const struct entry *e)
{
	unsigned slot = conn_slot(port, e);

	return slot == XDP_STEER_SLOTS ? find_entry(port, e) : slot;
}

/* Replaces the entry of another slot.  -ENOENT: there is none. */
static int replace_entry(struct xdp_port *port, const struct entry *e, unsigned slot)
{
	struct xdp_group *g = &port->group;
	bool locked;
	int rc;

	if (find_entry(port, e) == XDP_STEER_SLOTS)
		return -ENOENT;
	/* With the lock, whoever removes the entries of the other slot does not remove the new one. */
	locked = group_lock_wait(g, &g->ctl->lock);
	rc = map_update(e->map, &e->key3, slot, BPF_EXIST);
	if (!rc)
		rc = exact_moved(port, e, slot);
	if (locked)
		group_lock_release(g, &g->ctl->lock);
	return rc;
}

/* The exporting process does not change the entry: see xdp_part_flow(). */
int xdp_take_flow(struct port_queue *base, const struct flow_key *key)
{
	struct xdp_queue *q = (struct xdp_queue *)base;
	struct xdp_port *port = (struct xdp_port *)base->port;
	struct entry e = entry_of(port, key);
	unsigned from = conn_slot(port, &e);
	int rc;

	if (!xdp_may_have(port, key))
		return -ENOSPC;
	if (from != XDP_STEER_SLOTS && !xdp_conn_move(port, &e.key5, from, q->slot))
		return exact_moved(port, &e, q->slot);
	rc = replace_entry(port, &e, q->slot);
	return rc == -ENOENT ? xdp_add_flow(base, key) : rc;
}

bool xdp_part_flow(struct port_queue *base, const struct flow_key *key, bool over)
{
	const struct xdp_queue *q = (const struct xdp_queue *)base;
	const struct xdp_port *port = (const struct xdp_port *)base->port;
	struct entry e = entry_of(port, key);

	return over || slot_of(port, &e) != q->slot;
}

int xdp_del_flow(struct port_queue *base, const struct flow_key *key)
{
	struct xdp_queue *q = (struct xdp_queue *)base;
	struct xdp_port *port = (struct xdp_port *)base->port;
	struct entry e = entry_of(port, key);
	int rc;

	/* First, and only while it is this queue's: another process may add the flow then. */
	xdp_exact_drop(port, &e.exact, q->slot);
	if (e.is5 && !xdp_conn_del(port, &e.key5, q->slot))
		return 0;
	/* Not in the table, so the map's entry is of this process: no look-up is needed. */
	rc = map_delete(e.map, &e.key3);
	if (!rc && e.is5)
		count_flows5(port, -1u);
	if (!e.is5)
		xdp_kernel_del(port, &e.key3);
	return rc;
}

bool xdp_flow_is_foreign(struct port *base, const struct flow_key *key)
{
	const struct xdp_port *port = (const struct xdp_port *)base;
	struct entry e = entry_of(port, key);
	unsigned slot = slot_of(port, &e);

	return slot != XDP_STEER_SLOTS && !xdp_slot_is_ours(port, slot) &&
	       !group_slot_is_dead(&port->group, slot);
}

/* Removes the entries of these slots.  entries: the number of all entries; NULL: not counted. */
static void clear_map(int map, size_t key_size, uint32_t *entries, const uint8_t *slots)
{
	struct batch b;
	uint32_t at = 0;
	int rc;

	/* Pairs with count(). */
	if (entries && !__atomic_load_n(entries, __ATOMIC_SEQ_CST))
		return;
	rc = map_lookup_batch(map, NULL, &b);
	for (;;) {
		for (uint32_t i = 0; i < b.count && i < BATCH; i++)
			if (b.values[i] < XDP_STEER_SLOTS && slots[b.values[i]] &&
			    !map_delete(map, b.keys + i * key_size) && entries)
				count(entries, -1u);
		if (rc)
			return;
		at = b.out;
		rc = map_lookup_batch(map, &at, &b);
	}
}

void xdp_unsteer(struct xdp_port *port, const uint8_t slots[XDP_STEER_SLOTS])
{
	xdp_conns_clear(port, slots);
	clear_map(port->flows5_fd, sizeof(struct xdp_steer_key5), &port->conf->flows5, slots);
	clear_map(port->flows3_fd, sizeof(struct xdp_steer_key3), NULL, slots);
	clear_map(port->kernel_fd, sizeof(struct xdp_steer_key3), &port->conf->kernel, slots);
	clear_map(port->exact_fd, sizeof(struct xdp_steer_exact), &port->conf->flows6, slots);
	/* Last: with an entry but no socket, the kernel would get the SYN of a new connection. */
	for (unsigned slot = 0; slot < XDP_STEER_SLOTS; slot++)
		for (unsigned i = 0; slots[slot] && i < port->group.queues; i++)
			xdp_flow_set_socket(port, slot, i, -1);
}

int xdp_flow_set_socket(struct xdp_port *port, unsigned slot, unsigned i, int fd)
{
	uint32_t index = slot * XDP_STEER_QUEUES + i;

	if (fd < 0)
		return map_delete(port->xsks_fd, &index);
	return map_update(port->xsks_fd, &index, (uint32_t)fd, BPF_ANY);
}
