/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port: an interface as rings see it.  A port queue: a ring's part of it (hardware queues,
 * frames, steering).
 *
 * Role		open_queue, free_port, fence, grant: any thread, serialised by the
 *		caller (the control lock, see rings.h).  service, addrs_gone:
 *		the internal thread.  barrier: any, holding no ring.  at_exit: any.
 *		Every other operation: the holder of the queue's ring; it does not
 *		block.
 * Lifetime	a port lives at least as long as its queues.
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

#define PORT_FDS_MAX 4 /* most descriptors of one queue, or of service() */

/* The error for an interface that is not accelerated on purpose; `why` is one line then. */
#define PORT_UNTRIED EMEDIUMTYPE

#define PORT_WHY 1024 /* bytes of `why`, the reason of a failure for the user */

struct port;
struct port_queue;

/*
 * The operations of one kind of port.  The table is sorted.  A member added here must be added
 * to port_null_ops, too; otherwise the compiler reports an error.
 */
struct port_ops {
	/*
	 * Steers frames that match key to this queue.  For a 3-tuple of TCP, frames of
	 * connections that the kernel has at the address and port still go to the kernel,
	 * until kernel_done, unless can.takes_conns.  -EEXIST: they go to another queue, of this process or another
	 * one.  -ENOSPC: no room for an entry, or the port is fenced (see fence).
	 */
	int (*add_flow)(struct port_queue *q, const struct flow_key *key);
	/*
	 * Only with can.tags: as add_flow, for a 5-tuple whose local address and port no other
	 * socket of the host has.  The entry may be for these alone, and for several flows.
	 */
	int (*add_wide)(struct port_queue *q, const struct flow_key *key);
	/*
	 * The host has lost these addresses: the port drops frames for flows with such a local
	 * address until it is back.  The port steers frames again for addresses of earlier calls,
	 * by any process, that are back by now (link_of_addr()).
	 */
	void (*addrs_gone)(struct port *port, const struct inaddr *gone, unsigned n);
	/*
	 * A thread is about to block on the descriptors: the next frame makes one of them
	 * readable, once.  False: frames have arrived already, and the thread must not block.
	 */
	bool (*arm)(struct port_queue *q);
	/*
	 * Any thread.  The process ends.  The queue is not closed, since other threads may
	 * still use it, but settings that would outlive the process are restored.  held: the
	 * caller holds the queue's ring, and the port also gives frames back to other processes.
	 */
	void (*at_exit)(struct port_queue *q, bool held);
	/*
	 * Returns when every frame that was steered before the call is in its queue: after
	 * move_flow and barrier, the old queue gets no more frames of that flow.  Blocks for
	 * tens of milliseconds.
	 */
	void (*barrier)(struct port *port);
	/* Closes and frees the queue.  Its packets were given back, or nobody uses them again. */
	void (*close_queue)(struct port_queue *q);
	/*
	 * The kernel gets frames that match key, a flow of this queue.  Frames that are in the
	 * queue already still arrive.  -ENOENT: there is no such flow.
	 */
	int (*del_flow)(struct port_queue *q, const struct flow_key *key);
	/*
	 * The descriptors that are readable while there are frames or, if the port must be armed,
	 * after a frame has arrived; returns their number.
	 */
	int (*fds)(struct port_queue *q, int fds[PORT_FDS_MAX]);
	/*
	 * The process is about to give up its privileges.  From now on the kernel makes sure
	 * that its queues get only frames that were granted, whatever the process does.
	 * add_flow, take_flow and reuseport_join of other flows return -ENOSPC, and open_queue
	 * fails.
	 */
	void (*fence)(struct port *port);
	/*
	 * Do frames that match key, a 5-tuple, go to another process at this moment?  The
	 * answer may change at any time.
	 */
	bool (*flow_is_foreign)(struct port *port, const struct flow_key *key);
	/*
	 * Only with can.follows: links have changed, or the last call has left something to do.
	 * The internal thread with the control lock, holding no ring.
	 */
	void (*follow)(struct port *port);
	/* Frees the port, which has no queue any more. */
	void (*free_port)(struct port *port);
	/*
	 * Before fence: the queues of this process may get frames that match key after it.  The
	 * local address of key may be the unspecified one (any address).
	 */
	int (*grant)(struct port *port, const struct flow_key *key);
	/* Have all packets of the queue been given back?  Only then may it be closed. */
	bool (*idle)(struct port_queue *q);
	/*
	 * The port has no queues: have other processes queues of its interface, which may be
	 * unable to let a newcomer in?  Such a port stays open.  NULL: there are none.
	 */
	bool (*is_needed)(struct port *port);
	/* A 3-tuple of TCP: the kernel has no connections at its address and port any more. */
	void (*kernel_done)(struct port_queue *q, const struct flow_key *key);
	/*
	 * Only without can.shared_steering: could one more process take this flow of the queue, a
	 * 5-tuple?  Not while earlier owners still have too many entries for it.
	 */
	bool (*may_part)(struct port_queue *q, const struct flow_key *key);
	/*
	 * An event for so many frames, or so many microseconds after the first; both 0: for each.  It
	 * stays so while the queue is open.  -EOPNOTSUPP: the port does not moderate events.
	 */
	int (*moderate)(struct port_queue *q, uint16_t frames, uint16_t usec);
	/*
	 * Steers frames that match key to this queue, instead of another queue of this process
	 * and port.  No frame is lost in between; some may still arrive at the old queue, see
	 * barrier.  -ENOENT: no queue of this process had the flow.
	 */
	int (*move_flow)(struct port_queue *q, const struct flow_key *key);
	/* Opens a queue and sets its ->port.  On failure, why is a sentence for the user. */
	int (*open_queue)(struct port *port, struct port_queue **q, char why[PORT_WHY]);
	/*
	 * A flow of this queue, a 5-tuple, is exported to another process, which may have taken
	 * it by now (take_flow).  True: the port does not steer it here any more.  Without
	 * can.shared_steering it stops that, if the other process gets the frames then; over: in
	 * any case.  Called when the flow leaves, and then now and again.
	 */
	bool (*part_flow)(struct port_queue *q, const struct flow_key *key, bool over);
	/* Gives the caller up to max frames, oldest first, not parsed; returns their number. */
	int (*rx_burst)(struct port_queue *q, struct pkt **pkts, int max);
	/*
	 * Housekeeping, once per round of the internal thread and whenever one of the
	 * descriptors that it returned is readable.  Returns the number of descriptors.
	 */
	int (*service)(struct port *port, int fds[PORT_FDS_MAX]);
	/*
	 * Once, after the port was opened: waits until the interface has a carrier.  Opening a
	 * port resets the link of many cards, and frames sent meanwhile are lost.  Blocks for
	 * some seconds at most; false: still no carrier.
	 */
	bool (*settle)(struct port *port);
	/*
	 * From now on packets of rx_burst have PKT_ARRIVAL, as far as the port knows when their
	 * frames arrived.  May change q->ops.
	 */
	void (*stamp)(struct port_queue *q);
	/*
	 * As add_flow, for a 3-tuple that has several receivers, or will have: of this queue,
	 * of another one, or of another process.  Each of them joins.  The port divides the
	 * frames among them as their shares say, and sets share->member and ->at.  An entry
	 * that add_flow made for this queue becomes the member.  -EEXIST: a flow that is not
	 * shared has the key.  -ENOSPC: too many members or shared flows, or fenced.  -EAGAIN:
	 * another process is changing the flows.
	 */
	int (*reuseport_join)(struct port_queue *q, const struct flow_key *key,
			      struct flow_share *share);
	/* Removes a member of this queue.  The other members get its part. */
	void (*reuseport_leave)(struct port_queue *q, const struct flow_key *key,
				const struct flow_share *share);
	/* As move_flow, for one member, which keeps its part. */
	int (*reuseport_move)(struct port_queue *q, const struct flow_key *key,
			      const struct flow_share *share);
	/* The number of the member that gets frames that match key, a 5-tuple. */
	unsigned (*reuseport_pick)(struct port_queue *q, const struct flow_share *share,
				   const struct flow_key *key);
	/*
	 * Steers frames that match key, a 5-tuple, to this queue, wherever they went before: to
	 * another process, which exported the flow to this one, or to no queue.  Errors as of
	 * add_flow.
	 */
	int (*take_flow)(struct port_queue *q, const struct flow_key *key);
	/* Sends all frames put since the last flush; called once per burst. */
	void (*tx_flush)(struct port_queue *q);
	/* An empty frame to build in.  NULL: all frames are in use. */
	struct pkt *(*tx_get)(struct port_queue *q);
	/*
	 * Only with can.segment_max, for UDP with can.large_udp: sends a large segment now, after the
	 * frames that were put before and before those that are put later.  Copies the payload.
	 * 0, or -errno: nothing was sent, and it must be put in frames.
	 */
	int (*tx_large)(struct port_queue *q, const struct frame_large *large);
	/* Queues frame_len bytes at pkt->frame; consumes pkt.  0, or -ENOBUFS: dropped. */
	int (*tx_put)(struct port_queue *q, struct pkt *pkt);
};

/* What a port can do beyond the operations, or asks of rings. */
struct port_abilities {
	bool partial_csum;    /* a virtual device: frames with partial checksums may arrive */
	bool tx_csum;	      /* the device computes checksums of what is sent */
	bool timestamps;      /* the device tells when a frame arrived, and the port can read it */
	bool kernel_stamps;   /* the kernel could read it */
	bool zero_copy;	      /* the device uses the frames of rings, and copies none */
	bool must_arm;	      /* descriptors report nothing before arm() is called, each time */
	bool shared_steering; /* several processes steer frames by one table */
	bool tags;	    /* frames of an entry carry its tag, which finds the flow: PKT_TAGGED */
	bool takes_conns;   /* a 3-tuple also gets frames of connections that the kernel has */
	bool follows;	    /* other interfaces decide what it does: see follow */
	uint32_t frame_max; /* bytes of the longest frame, with its Ethernet header */
	uint32_t segment_max; /* bytes of the longest frame that tx_large takes; 0: none */
	bool large_udp;	      /* tx_large also takes datagrams */
};

struct port {
	/* set when opened, read by all */
	const struct port_ops *ops;
	int ifindex;
	char name[16];
	uint8_t mac[6];
	uint32_t mtu;	 /* of IP packets, as the interface had it when opened */
	unsigned linger; /* seconds that it stays open without rings: opening it is expensive */
	struct port_abilities can;
	/*
	 * any, atomic; written by service().  Other processes took this one for dead, and use
	 * what the port had.  Its rings will be retired and the port freed.
	 */
	bool lost;
};

/* any */
static inline bool port_is_lost(const struct port *port)
{
	return __atomic_load_n(&port->lost, __ATOMIC_RELAXED);
}

static inline bool port_is_needed(struct port *port)
{
	return port->ops->is_needed && port->ops->is_needed(port);
}

struct port_queue {
	/* set when opened, read by all */
	struct port *port;
	const struct port_ops *ops; /* port->ops, or a variant: see stamp */
	/* set by ring_open(), see port_give_back() */
	struct hold *owner; /* of the ring; NULL: there is no ring */
	void (*give_back)(struct port_queue *q, struct pkt *pkt);
	/* holder */
	struct pkt_pool pool; /* of the frames that rx_burst and tx_get return */
	unsigned frames;      /* in total */
	unsigned frames_free; /* neither in the kernel nor in a packet that is in use */
	bool unused;	      /* nothing can have arrived yet: not worth a line of statistics */
	/* set when opened, for ring_open() */
	struct port_queue *parts; /* queues that this one consists of, linked by next; or NULL */
	struct port_queue *next;
};

/*
 * The put() of every port's packet pool calls this first: after a flow moved to another ring,
 * the holder of that ring frees the flow's packets.  True: pkt was posted to its own ring, and
 * put() must not touch it any more.
 */
static inline bool port_give_back(struct port_queue *q, struct pkt *pkt)
{
	if (__builtin_expect(q->owner == hold_current || !q->owner, 1))
		return false;
	q->give_back(q, pkt);
	return true;
}

/* The moderate of ports that cannot do it. */
int port_moderates_nothing(struct port_queue *q, uint16_t frames, uint16_t usec);
/* may_part and part_flow of ports where take_flow replaces the entry. */
bool port_may_part(struct port_queue *q, const struct flow_key *key);
bool port_parts_at_once(struct port_queue *q, const struct flow_key *key, bool over);

/* The operations of a ring without a port: every one does nothing or fails. */
extern const struct port_ops port_null_ops;

#endif
