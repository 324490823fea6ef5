/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port: an interface as rings see it, and a port queue: a ring's share of it
 * (queues, frames, steering).
 *
 * Role		port_*_open(), open_queue, free_port: any thread, serialised by
 *		the caller (the control lock of sock); fence and grant, too.  service,
 *		addrs_gone: the internal thread.  barrier: any, holding no ring.  Every other operation:
 *		the holder of the queue's ring; none of them blocks.
 * Lifetime	a port lives as long as one of its queues does.
 * Errors	-errno.
 */
#ifndef RING_PORT_H
#define RING_PORT_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/frame.h"
#include "net/pkt.h"
#include "ring/hold.h"
#include "ring/reuseport.h"

#define PORT_FDS_MAX 4 /* descriptors to sleep on */

/* The error of an interface that is left alone on purpose; why is one line then. */
#define PORT_UNTRIED EMEDIUMTYPE

#define PORT_WHY 512 /* bytes of a reason for the user */

struct port;
struct port_queue;

/*
 * What a way to the wire provides.  Sorted; a member added here must be added
 * to port_null_ops too, the compiler insists.
 */
struct port_ops {
	/*
	 * Frames that match key come to this queue from now on.  Of a 3-tuple of TCP, those
	 * of connections that the kernel has at the address and port still go to the kernel,
	 * until kernel_done.  -EEXIST: they go to another queue, of this process or of another
	 * one.  -ENOSPC...
	 */
	int (*add_flow)(struct port_queue *q, const struct flow_key *key);
	/*
	 * These addresses left the host: frames for flows of theirs are dropped until
	 * they are back.  Those of earlier calls, of any process,
	 * that are back by now (link_of_addr()) come to their flows again.
	 */
	void (*addrs_gone)(struct port *port, const struct inaddr *gone, unsigned n);
	/*
	 * The process ends, and with it the queue, which is not closed: other threads may
	 * use it.  What would outlive the process is put back; held: the caller holds the
	 * queue, and what others can use goes to them at once.  Any thread.
	 */
	void (*at_exit)(struct port_queue *q, bool held);
	/*
	 * Returns when every frame that was steered before the call is in its
	 * queue: after move_flow() and this, the old queue gets no more of that
	 * flow.  May sleep for tens of milliseconds.
	 */
	void (*barrier)(struct port *port);
	/* Closes the queue and frees it; all its packets were given back or are forgotten. */
	void (*close_queue)(struct port_queue *q);
	/* A flow of this queue: they go to the kernel again.  Frames in the queue still arrive. */
	int (*del_flow)(struct port_queue *q, const struct flow_key *key);
	/* Descriptors that become readable when a frame is there; how many. */
	int (*fds)(struct port_queue *q, int fds[PORT_FDS_MAX]);
	/*
	 * The process is about to give up its privileges: from now on the queues that it
	 * has get nothing but what was granted, whatever else it does; the kernel sees to it.
	 * add_flow, take_flow and reuseport_join of anything else: -ENOSPC.  No queue is opened.
	 */
	void (*fence)(struct port *port);
	/*
	 * Do frames that match key, a 5-tuple, go to another process?  Not for sure: it
	 * may change.
	 */
	bool (*flow_is_foreign)(struct port *port, const struct flow_key *key);
	/* Frees the port; it has no queue any more. */
	void (*free_port)(struct port *port);
	/*
	 * Before fence(): frames that match key, whose local address may be any, may come to
	 * queues of this process after it.
	 */
	int (*grant)(struct port *port, const struct flow_key *key);
	/* Are all packets of the queue back?  Only then may it be closed. */
	bool (*idle)(struct port_queue *q);
	/* A 3-tuple of TCP: the kernel has no connections there any more. */
	void (*kernel_done)(struct port_queue *q, const struct flow_key *key);
	/*
	 * Frames that match key come to this queue from now on instead of to another
	 * one of this process and port.  No frame is lost in between; some may still
	 * arrive at the old one: see barrier.  -ENOENT: none of them had it.
	 */
	int (*move_flow)(struct port_queue *q, const struct flow_key *key);
	/* Opens one; q->port is set.  why: a sentence for the user on failure. */
	int (*open_queue)(struct port *port, struct port_queue **q, char why[PORT_WHY]);
	/* Up to max frames, oldest first, not parsed; they are the caller's. */
	int (*rx_burst)(struct port_queue *q, struct pkt **pkts, int max);
	/* False when the last rx_burst() left nothing: safe to sleep on the descriptors. */
	bool (*rx_pending)(struct port_queue *q);
	/*
	 * Housekeeping, once per round of the internal thread and whenever one of the
	 * descriptors it returned is readable.  Returns how many there are.
	 */
	int (*service)(struct port *port, int fds[PORT_FDS_MAX]);
	/*
	 * Once, after the port was opened: waits until the interface carries frames, since
	 * to open it resets the link of many cards, and what is sent meanwhile is lost.
	 * Sleeps for some seconds at most; false: in vain.
	 */
	bool (*settle)(struct port *port);
	/*
	 * As add_flow, of a 3-tuple that has other receivers, or will have some, of this
	 * queue, of another one, or of another process: each of them has joined, and no
	 * more get what the share says.  An entry that add_flow made for this queue becomes
	 * a member.  -EEXIST: it goes to somebody else, who does not share.
	 * -ENOSPC: there are too many.  -EAGAIN.
	 */
	int (*reuseport_join)(struct port_queue *q, const struct flow_key *key,
			      struct flow_share *share);
	/* A member of this queue goes.  The others get its part. */
	void (*reuseport_leave)(struct port_queue *q, const struct flow_key *key,
				const struct flow_share *share);
	/* As move_flow, of one member; it keeps its part. */
	int (*reuseport_move)(struct port_queue *q, const struct flow_key *key,
			      const struct flow_share *share);
	/* Which member of this flow gets what matches the 5-tuple? */
	unsigned (*reuseport_pick)(struct port_queue *q, const struct flow_share *share,
				   const struct flow_key *key);
	/*
	 * Frames that match key, a 5-tuple, come to this queue from now on, wherever they
	 * went before: to another process that has handed the connection over to us, or
	 * nowhere.  -ENOSPC...
	 */
	int (*take_flow)(struct port_queue *q, const struct flow_key *key);
	/* Hands everything put since to the wire; once per burst. */
	void (*tx_flush)(struct port_queue *q);
	/* An empty frame to build in, or NULL: all are under way or held by sockets. */
	struct pkt *(*tx_get)(struct port_queue *q);
	/* Queues frame_len bytes at pkt->frame; consumes it.  -ENOBUFS: dropped. */
	int (*tx_put)(struct port_queue *q, struct pkt *pkt);
};

#define PORT_PARTIAL_CSUM 1u /* virtual device: frames with partial checksums arrive */

struct port {
	/* set when opened, read by all */
	const struct port_ops *ops;
	int ifindex;
	char name[16];
	uint8_t mac[6];
	uint32_t mtu;	/* of IP packets, as the interface had it when opened */
	unsigned flags; /* PORT_* */
	/*
	 * any, atomic; written by service().  Others took this process for dead and use what
	 * the port had: its rings are retired and it is freed, soon.
	 */
	bool lost;
};

struct port_queue {
	/* set when opened, read by all */
	struct port *port;
	const struct port_ops *ops; /* = port->ops */
	/* set by the ring: see port_give_back(); NULL: there is no ring */
	struct hold *owner;
	void (*give_back)(struct port_queue *q, struct pkt *pkt);
	/* holder */
	struct pkt_pool pool; /* of the frames rx_burst() gives */
	unsigned frames;      /* in total */
	unsigned frames_free; /* neither with the kernel nor with a socket */
};

/*
 * Every pool's put() begins with it: a packet whose socket moved to another ring is
 * freed by the holder of that one.  True: it is on its way to its own ring.
 */
static inline bool port_give_back(struct port_queue *q, struct pkt *pkt)
{
	if (__builtin_expect(q->owner == hold_current || !q->owner, 1))
		return false;
	q->give_back(q, pkt);
	return true;
}

/* Refuses everything. */
extern const struct port_ops port_null_ops;

/* ---- ways to the wire ------------------------------------------------------- */

/*
 * AF_XDP on any interface.  -EBUSY: another program has the interface or the
 * queue.  -EPERM: privileges are missing.  -EOPNOTSUPP: it cannot do it.  -PORT_UNTRIED:
 * nobody tried this kind of device, or it is part of another one.
 * why: what happened, why, and what to do, for the user; lines end in \n.
 */
int port_xdp_open(int ifindex, struct port **port, char why[PORT_WHY]);

/*
 * Loop-back for tests and benches: what is put into one queue of a port comes
 * out of the queues that have a matching flow (any queue of the same port,
 * also of other rings); needs no privilege and no wire.
 */
int port_loop_open(uint32_t mtu, struct port **port);

#endif
