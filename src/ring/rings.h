/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rings of this process: found by (interface, key), made on demand.
 *
 * Role		rings_count(), rings_at(): any.  rings_service(): the internal
 *		thread.  All others: one thread at a time (the control lock of
 *		sock), holding no ring.
 * Lifetime	an entry, once visible, stays; see ring.h.  A ring that was got
 *		stays open at least until the control lock is let go; after that
 *		as long as somebody has a reference (ring_get()).
 */
#ifndef RING_RINGS_H
#define RING_RINGS_H

#include <poll.h>

#include "ring/ring.h"

#define RINGS_MAX 1024

typedef int (*port_open_fn)(int ifindex, struct port **port, char why[PORT_WHY]);

/* Once at start.  open_port: the way to the wire, also a test's. */
void rings_init(port_open_fn open_port);

/*
 * The ring of this interface and key, made if there is none.  Past
 * VMA_RING_LIMIT_PER_INTERFACE, or what the interface and memory bear, the one with
 * the fewest users instead: its key is another one.  On failure -errno and why
 * (text for the user); fresh: this is the first attempt on the interface since it
 * last changed, so the user has not been told yet.
 */
int rings_get(int ifindex, uint64_t key, struct ring **ring, char why[PORT_WHY], bool *fresh);

/*
 * The internal thread, holding no ring, now and then: closes rings that nobody has
 * needed for a second, and ports without rings.  True: something was closed.  vacate:
 * called before, holding none, of a ring with no reference, unless it is NULL; heir: another ring of the
 * interface that is in use, or NULL.
 */
bool rings_close_unused(nsec_t now, void (*vacate)(struct ring *ring, struct ring *heir));

/* From now on until rings_interface_gone(): rings_get() fails, although its link may be there. */
void rings_interface_leaving(int ifindex);

/*
 * The interface is gone, and its rings are retired: closes their queues and its port, as far
 * as packets are back; rings_close_unused() does the rest.
 */
void rings_interface_gone(int ifindex);

/* The internal thread, no lock: nobody sleeps on its descriptors, which tell of errors for ever. */
void rings_interface_deaf(int ifindex);

/* The ring of the interface that has a flow with this key, or NULL. */
struct ring *rings_find_flow(int ifindex, const struct flow_key *key);

/*
 * The internal thread, and whoever ends the process: the ports' housekeeping; what to sleep on
 * for more of it, how many.
 */
unsigned rings_service(struct pollfd *fds, unsigned max);

/*
 * The internal thread: the interface of a port that is lost (see port.h) and has not been
 * told of by rings_interface_gone(); 0: there is none.
 */
int rings_lost(void);

/* The internal thread: port_ops.addrs_gone of all ports. */
void rings_addrs_gone(const struct inaddr *gone, unsigned n);

/* Of a ring that was got: port_ops.grant.  Of all ports: port_ops.fence. */
int rings_grant(struct ring *ring, const struct flow_key *key);
void rings_fence(void);

#define RINGS_ANY_INTERFACE (-1)

/* The interface changed: a port that could not be opened may be tried again. */
void rings_interface_changed(int ifindex);

unsigned rings_count(void);
struct ring *rings_at(unsigned i);

/* The ring without a port: home of sockets that have none yet. */
struct ring *rings_nowhere(void);

/*
 * In a forked child: forgets every ring and closes its descriptors; their
 * memory is the parent's business.  No other thread exists.
 */
void rings_forget(void);

/* At exit: closes queues and ports, so that the kernel has the interfaces back. */
void rings_close_all(void);

#endif
