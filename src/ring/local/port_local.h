/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port of local connections: a home ring that polls and sleeps on notice lanes (notice.h)
 * instead of frames.  It needs no interface and no privilege.
 *
 * Role		as each function says; port_local_kind: see ports.h.
 * Lifetime	a lane is in its owner's memory, and belongs to the ring between
 *		port_local_add() and port_local_remove().
 * Ordering	what a writer published before it posted is visible to the lane's function.
 *		A thread that blocks on the ring arms it before (port_ops.arm), so no notice is
 *		slept through.
 */
#ifndef RING_LOCAL_PORT_LOCAL_H
#define RING_LOCAL_PORT_LOCAL_H

#include "ring/local/notice.h"
#include "ring/ports.h"
#include "ring/ring.h"

/* The number that stands for the port in rings_get(); no interface has it. */
#define PORT_LOCAL_IFINDEX (-3)

struct port_local_lane {
	/* the owner sets them before port_local_add() */
	struct notice_reader in;
	int wake_fd;	  /* the eventfd that the lane's writer writes; the owner closes it */
	notice_fn notice; /* holder: called for each connection that was posted */
	/* holder: looks for what no notice may announce; true: there was something */
	bool (*look)(void *arg);
	void *arg;
	/* holder */
	bool looks; /* the owner: call look() at each poll, and before a thread blocks */
	struct list link;
};

extern const struct port_kind port_local_kind;

/* holder of a ring of this port: polls the lane from now on.  0 or -errno. */
int port_local_add(struct ring *ring, struct port_local_lane *lane);
/* holder: does not poll it any more. */
void port_local_remove(struct ring *ring, struct port_local_lane *lane);

#endif
