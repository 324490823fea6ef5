/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rings of this process: found by (interface, key), made on demand.
 *
 * Role		rings_count(), rings_at(), rings_nowhere(): any.  All others: one
 *		thread at a time, which has the control lock and holds no ring,
 *		unless the function says otherwise.
 *		The control lock belongs to the layer above.  Under it, one thread
 *		at a time opens and closes ports and rings; it is taken with no
 *		ring held.
 * Lifetime	an entry, once visible, stays; see ring.h.  A ring that rings_get()
 *		returned stays open until the caller releases the control lock, and
 *		after that as long as it has a reference (ring_get()).
 */
#ifndef RING_RINGS_H
#define RING_RINGS_H

#include <poll.h>

#include "ring/ports.h"
#include "ring/ring.h"

#define RINGS_MAX 1024

/* Once at start.  kinds: see ports_init(). */
void rings_init(const struct port_kind *const *kinds);

/*
 * The ring of this interface and key, made if there is none.  When there are as many rings as
 * VMA_RING_LIMIT_PER_INTERFACE, the interface or memory allow, the one with the fewest
 * references instead, which has another key.  On failure -errno, and why (text for the user).
 * fresh: this is the first attempt on the interface since it last changed, so the user has not
 * been told yet.
 */
int rings_get(int ifindex, uint64_t key, struct ring **ring, char why[PORT_WHY], bool *fresh);

/*
 * The internal thread, from time to time: closes rings that had no reference for a second, and
 * ports that had no ring for port->linger seconds.  True: a ring was closed.  vacate, unless
 * it is NULL, is called first, holding no ring, for each ring that is about to be closed.  other:
 * another ring of the interface that has references, or NULL.
 */
bool rings_close_unused(nsec_t now, void (*vacate)(struct ring *ring, struct ring *other));

/* rings_get() fails for the interface, even if its link exists, until rings_interface_gone(). */
void rings_interface_leaving(int ifindex);

/*
 * The interface is gone, and its rings are retired: closes their queues and the port, if all
 * packets were given back; otherwise rings_close_unused() does it later.
 */
void rings_interface_gone(int ifindex);

/*
 * The internal thread, without the control lock: no thread blocks on the descriptors of the
 * interface's rings any more, since they report an error from now on.
 */
void rings_interface_deaf(int ifindex);

/* The ring of the interface that has a flow with this key, or NULL. */
struct ring *rings_find_flow(int ifindex, const struct flow_key *key);

/*
 * The internal thread, or the thread that ends the process, without the control lock: calls
 * port_ops.service of all ports.  Fills in the descriptors that need it again when they are
 * readable; returns their number, at most max.
 */
unsigned rings_service(struct pollfd *fds, unsigned max);

/*
 * The internal thread: the interface of a port that is lost (see port.h), until
 * rings_interface_gone() is called for it; 0: there is none.
 */
int rings_lost(void);

/*
 * The internal thread, with the control lock: calls port_ops.follow of all ports, since links have
 * changed.  True: a port may have come to one of them (see links_new_port()).
 */
bool rings_follow(void);

/*
 * The internal thread, with the control lock: an interface that has rings, but is lost, does not
 * exist any more, or is not the device that it was; 0: there is none.
 */
int rings_gone(void);

/*
 * Ports whose barriers are waited for, each once.  rings_barrier_add(): the port of an open ring.
 * rings_barrier_wait(): calls port_ops.barrier; the internal thread, or with the control lock,
 * since no thread closes ports meanwhile.
 */
#define RINGS_PORTS_MAX 64
struct rings_barrier {
	unsigned n;
	struct port *ports[RINGS_PORTS_MAX];
};
void rings_barrier_add(struct rings_barrier *barrier, const struct ring *ring);
void rings_barrier_wait(const struct rings_barrier *barrier);

/*
 * The internal thread: calls port_ops.addrs_gone of all ports; of endpoints with a scope, for that
 * interface.  n: PORTS_GONE_MAX at most.
 */
void rings_addrs_gone(const struct endpoint *gone, unsigned n);

/* Calls port_ops.grant of the ring's port; -errno. */
int rings_grant(struct ring *ring, const struct flow_key *key);
/* Calls port_ops.fence of all ports. */
void rings_fence(void);

#define RINGS_ANY_INTERFACE (-1)

/* The interface changed: rings_get() tries again to open a port that could not be opened. */
void rings_interface_changed(int ifindex);

/* any: the number of rings, open or not; ring i is rings_at(i). */
unsigned rings_count(void);
struct ring *rings_at(unsigned i);

/* any: the ring without a port, for what has no other ring yet. */
struct ring *rings_nowhere(void);

/*
 * In a forked child, where no other thread exists: forgets all rings and ports of the parent.  returns:
 * into a call that may poll these rings, which must not touch the parent's queues, or locks that other
 * threads held.
 */
void rings_forget(bool returns);

/* At exit: closes all queues and ports; the kernel serves the interfaces again. */
void rings_close_all(void);

#endif
