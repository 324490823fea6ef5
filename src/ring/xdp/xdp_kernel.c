/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listeners at whose address and port the kernel may have connections, too: those that are
 * older than the listener.  The program asks the kernel for each frame that
 * such a listener would get, which costs some 100 ns, and passes what the kernel has.
 *
 * Several members may have an entry of one key, since they share the listener's port.  The
 * entry is of the last one who set it, and he removes it.
 */
#include <errno.h>
#include <netinet/in.h>

#include "ring/xdp/xdp_entry.h"
#include "ring/xdp/xdp_internal.h"

static bool any(const struct xdp_port *port)
{
	return __atomic_load_n(&port->conf->kernel, __ATOMIC_SEQ_CST) != 0;
}

static void count(struct xdp_port *port, uint32_t by)
{
	__atomic_fetch_add(&port->conf->kernel, by, __ATOMIC_SEQ_CST);
}

/* When there is no room for it, such connections are reset, as if there were no map. */
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

static bool has(const struct xdp_port *port, const struct xdp_steer_key3 *key)
{
	uint32_t slot;

	return key->proto == IPPROTO_TCP && any(port) && !map_lookup(port->kernel_fd, key, &slot) &&
	       xdp_slot_is_ours(port, slot);
}

void xdp_kernel_move(struct xdp_port *port, const struct xdp_steer_key3 *key, unsigned slot)
{
	if (has(port, key))
		map_update(port->kernel_fd, key, slot, BPF_EXIST);
}

void xdp_kernel_del(struct xdp_port *port, const struct xdp_steer_key3 *key)
{
	if (has(port, key) && !map_delete(port->kernel_fd, key))
		count(port, -1u);
}

void xdp_kernel_done(struct port_queue *q, const struct flow_key *key)
{
	struct xdp_steer_key3 key3 = xdp_key3_of(key);

	if (addr_is_v4(&key->local))
		xdp_kernel_del((struct xdp_port *)q->port, &key3);
}
