/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The map of 3-tuples (listeners) at which the kernel may have connections that are older than
 * the listener.  For each frame to such a 3-tuple the program asks the kernel, which takes about
 * 100 ns, and passes frames of the kernel's connections.
 *
 * Several members may set an entry for one key, since they share the listener's port.  The entry
 * belongs to the last one that set it, which removes it.
 */
#include <errno.h>
#include <netinet/in.h>

#include "ring/xdp/xdp_entry.h"
#include "ring/xdp/xdp_internal.h"

static bool has_entries(const struct xdp_port *port)
{
	/* Pairs with count(). */
	return __atomic_load_n(&port->conf->kernel, __ATOMIC_SEQ_CST) != 0;
}

static void count(struct xdp_port *port, uint32_t by)
{
	/* Pairs with find_entry() of the program and with has_entries(). */
	__atomic_fetch_add(&port->conf->kernel, by, __ATOMIC_SEQ_CST);
}

/* Without room for an entry, the kernel's older connections are reset. */
void xdp_kernel_set(struct xdp_port *port, const struct xdp_steer_key3 *key, unsigned slot)
{
	int rc;

	if (key->proto != IPPROTO_TCP)
		return;
	count(port, 1);
	rc = map_update(port->kernel_fd, key, slot, BPF_NOEXIST);
	if (rc)
		count(port, -1u);
	if (rc == -EEXIST)
		map_update(port->kernel_fd, key, slot, BPF_EXIST);
}

static bool has_entry(const struct xdp_port *port, const struct xdp_steer_key3 *key)
{
	uint32_t slot;

	return key->proto == IPPROTO_TCP && has_entries(port) &&
	       !map_lookup(port->kernel_fd, key, &slot) && xdp_slot_is_ours(port, slot);
}

void xdp_kernel_move(struct xdp_port *port, const struct xdp_steer_key3 *key, unsigned slot)
{
	if (has_entry(port, key))
		map_update(port->kernel_fd, key, slot, BPF_EXIST);
}

void xdp_kernel_del(struct xdp_port *port, const struct xdp_steer_key3 *key)
{
	if (has_entry(port, key) && !map_delete(port->kernel_fd, key))
		count(port, -1u);
}

void xdp_kernel_done(struct port_queue *q, const struct flow_key *key)
{
	struct xdp_port *port = (struct xdp_port *)q->port;
	struct xdp_steer_key3 key3 = xdp_key3_of(port, key);

	xdp_kernel_del(port, &key3);
}
