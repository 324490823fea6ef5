/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring: a queue on a port, or on each of several (ring/team/port_team.h), its frames, a flow
 * table, a timer wheel and an inbox.  The owners of its flows keep their state under the same rule.
 *
 * Role		the one rule: only the thread that holds a ring touches its state.
 *		Functions marked "any" are the exceptions.
 * Lifetime	made on demand (rings.h) and type-stable: the memory of a ring stays a ring while
 *		the process runs, so any thread that has a pointer to one may try to hold it.  Its
 *		port queue is closed about a second after the last reference was put (ring_put()).
 * Ordering	see hold.h and inbox.h.
 */
#ifndef RING_RING_H
#define RING_RING_H

#include "base/list.h"
#include "base/stats/recorder.h"
#include "base/wheel.h"
#include "net/drop.h"
#include "ring/adj.h"
#include "ring/flow.h"
#include "ring/hold.h"
#include "ring/inbox.h"
#include "ring/port.h"
#include "ring/sleep.h"

/* holder: a function to run at the end of a burst, once however often it was added. */
struct ring_work {
	struct list link;
	void (*run)(struct ring *ring, struct ring_work *work, nsec_t now);
	bool later; /* linked in ->later: does not run before the next poll */
};

struct ring_stats {
	uint64_t rx_frames, rx_bytes;
	uint64_t tx_frames, tx_bytes;
	uint64_t copied;      /* frames copied into ordinary memory because free frames ran low */
	uint64_t forwarded;   /* posted to other rings, see ring_detach() */
	uint64_t retransmits; /* segments of connections */
	uint64_t most;	      /* frames that one poll brought */
	uint64_t drops[DROP_COUNT];
};

struct ring {
	/*
	 * written by the holder, who also has the control lock; read by a thread that has
	 * a reference or the control lock, and by the internal thread, which closes rings
	 */
	struct port_queue *q;	    /* NULL: closed or retired; atomic: see ring_queue() */
	struct port_queue *dead;    /* queue of a retired ring, until its packets are back */
	const struct port_ops *ops; /* = q->ops, those of capture.c, or port_null_ops */
	unsigned parse_flags;	    /* for frame_parse() */
	unsigned id;
	unsigned low_water;    /* with fewer free frames, ring_keep() copies */
	int ifindex;	       /* 0: closed or retired */
	uint64_t key;	       /* of the allocation logic */
	struct inaddr addr;    /* the interface's first address, for IP_PKTINFO of multicast */
	int fds[PORT_FDS_MAX]; /* atomic: see ring_fds() */
	int n_fds;	       /* atomic: see ring_fds() */

	/* control lock */
	nsec_t unused_since; /* when rings_close_unused() found no reference; 0: in use */
	bool retired;	     /* see ring_retire() */

	/* any, atomic */
	struct inbox inbox __attribute__((aligned(64)));
	struct hold hold;
	bool has_later; /* written by the holder; see ring_settled() */
	bool must_arm;	/* written with fds, see ring_arm_fds() */
	uint32_t polls; /* written by the holder, read by the internal thread */
	uint32_t arms;	/* timers armed; written by the holder, see ring_arm() */
	uint32_t refs;	/* flows, their owners and destinations that need the ring */

	/* holder */
	struct wheel wheel __attribute__((aligned(64)));
	struct flow_table flows;
	struct adj_table adjs;
	struct adj direct; /* stands for a neighbour whose address is in the frame's template */
	struct list work;  /* of struct ring_work: run at the end of this burst */
	struct list later; /* of struct ring_work: run after the next poll */
	struct {
		uint64_t pair;	     /* source_pair() of the last datagram that was accepted */
		uint32_t generation; /* netlink_generation() at that time */
	} sender;
	struct list questions; /* of source.c: questions to the kernel about senders */
	unsigned n_questions;
	unsigned n_waiting; /* packets that wait for answers */
	bool settling;	    /* ring_settle() is running */
	bool tx_dirty;	    /* ring_tx_put() was called since the last flush */
	uint32_t ip_id;	    /* of the last datagram that was fragmented; of IPv4 the low half */
	nsec_t now;	    /* of the last poll; atomic: see ring_set_now() */
	unsigned unpolled;  /* ring_keep_up() calls since the last poll */
	unsigned parting;   /* flows that ring_flow_part() left, and the port still brings here */
	void *records;	    /* of the layer above, for what has ended here; NULL: none */
	struct recorder_area *recorder; /* what happens here; NULL: is not recorded */
	struct ring_stats stats;

	/* any: the threads blocked until frames arrive */
	struct sleep_place sleepers __attribute__((aligned(64)));
};

/* any, holding no ring.  q may be NULL: a ring without a port (rings_nowhere()). */
void ring_init(struct ring *ring, struct port_queue *q, unsigned id);

/* holder, control lock: gives a closed ring the queue q, which the ring owns from now on. */
void ring_open(struct ring *ring, struct port_queue *q);
/* holder, control lock: closes and frees the queue of a ring without references. */
void ring_close(struct ring *ring);

/*
 * holder, control lock: the interface of the ring is gone for good.  Flows stay listed and timers
 * run, but the ring neither receives nor sends any more.  No destination may point to a neighbour of
 * it (the table is freed).  The queue becomes ->dead; rings.c closes it when it has all packets back.
 */
void ring_retire(struct ring *ring);
/* holder, control lock: a retired ring has no reference any more and may be opened again. */
void ring_recycle(struct ring *ring);

/* Logs what became of the ring's frames. */
void ring_log_stats(const struct ring *ring);
/* any: the process ends, and other threads may still use the ring; see port_ops.at_exit. */
void ring_at_exit(struct ring *ring);

/* ---- any ------------------------------------------------------------------------ */

/* With a reference.  False: closed, retired, or rings_nowhere(). */
static inline bool ring_is_open(const struct ring *ring)
{
	return ring->q != NULL;
}

/* The scope of an address of a frame that is received or sent by the ring: see struct endpoint. */
static inline uint32_t ring_scope(const struct ring *ring, const struct inaddr *addr)
{
	return __builtin_expect(addr_needs_scope(addr), 0) ? (uint32_t)ring->ifindex : 0;
}

/* Of an open ring: the largest IP packet, and the link address that it sends from. */
static inline uint32_t ring_mtu(const struct ring *ring)
{
	return ring->q->port->mtu;
}

static inline const uint8_t *ring_mac(const struct ring *ring)
{
	return ring->q->port->mac;
}

/* The queue at this moment.  The caller needs no reference to the ring. */
static inline struct port_queue *ring_queue(const struct ring *ring)
{
	/* acquire: pairs with the store of ->q in ring_open() */
	return __atomic_load_n(&ring->q, __ATOMIC_ACQUIRE);
}

/*
 * The descriptors that the leader of ->sleepers, or the internal thread, sleeps on; returns their
 * number.  Out of date while the ring is opened or closed: both wake all of ->sleepers afterwards.
 */
static inline int ring_fds(const struct ring *ring, int fds[PORT_FDS_MAX])
{
	/* acquire: pairs with the store of ->n_fds in ring_open() */
	int n = __atomic_load_n(&ring->n_fds, __ATOMIC_ACQUIRE);

	for (int i = 0; i < n; i++)
		fds[i] = __atomic_load_n(&ring->fds[i], __ATOMIC_RELAXED);
	return n;
}
/* any, holding no ring: ring_arm_fds() for a port that must be armed. */
bool ring_arm_fds_now(struct ring *ring);
/*
 * any, holding no ring: the caller blocks on the descriptors next.  False: frames have arrived,
 * or another thread holds the ring; the caller must poll the ring instead.
 */
static inline bool ring_arm_fds(struct ring *ring)
{
	/* Pairs with ring_open(), which wakes threads that saw an old value. */
	return !__atomic_load_n(&ring->must_arm, __ATOMIC_RELAXED) || ring_arm_fds_now(ring);
}
/* any: n_fds was stored.  Wakes every sleeper, which blocks on other descriptors from now on. */
void ring_fds_changed(struct ring *ring);

/* The interface of an open ring; 0: it has none. */
static inline int ring_interface(const struct ring *ring)
{
	const struct port_queue *q = ring_queue(ring);

	return q ? q->port->ifindex : 0;
}

/* Takes a reference, for a flow, its owner or a destination: the ring stays open. */
static inline void ring_get(struct ring *ring)
{
	__atomic_fetch_add(&ring->refs, 1, __ATOMIC_RELAXED);
}

/* Puts a reference.  The caller has finished its work on the ring. */
static inline void ring_put(struct ring *ring)
{
	/* release: pairs with the loads of ->refs in rings_close_unused() and close_ring() */
	__atomic_fetch_sub(&ring->refs, 1, __ATOMIC_RELEASE);
}

/* holder: runs all items of the inbox. */
void ring_drain_inbox(struct ring *ring);
/* any, just after the ring was released: runs what was posted meanwhile, if the ring is free. */
void ring_look_again(struct ring *ring, enum hold_mode mode);
/* holder: sets ->now to the current time and runs the work. */
void ring_run_late_work(struct ring *ring);

/*
 * What the calling thread does as soon as it holds no ring: it tries the rings that it posted to, and
 * runs functions. Signal handlers, which may jump, are deferred: busy_defers counts ->posted and ->runs.
 */
#define RING_POSTED_MAX 8
#define RING_AFTERWARDS 3
struct ring_thread {
	union {
		struct {
			uint16_t posted; /* rings in ->to; more than RING_POSTED_MAX: all rings */
			uint8_t put_off; /* 1: signals wait for this thread, see base/busy.h */
			uint8_t runs;	 /* 1: there are functions in ->afterwards */
		};
		uint32_t due; /* not 0: one of the three above is set; one load tells */
	};
	bool internal; /* this is the internal thread */
	struct ring *to[RING_POSTED_MAX];
	void (*afterwards[RING_AFTERWARDS])(void); /* the first one is that of ring_run_last() */
};
extern __thread struct ring_thread ring_thread __attribute__((tls_model("initial-exec")));

/* any: does what is due in ring_thread; nothing while the thread holds a ring. */
void ring_try_posted(void);
/*
 * holder of any ring: as soon as this thread holds none, it executes a fence and tries this ring,
 * if its inbox is not empty.
 */
void ring_look_after_release(struct ring *ring);

/*
 * holder: fn runs on this thread, once, as soon as the thread holds no ring; signal handlers are
 * deferred until it returns.  There is room for RING_AFTERWARDS - 1 different functions in the whole
 * library.  _last: for the one that lets them in, to call the program; nothing else is due then.
 */
void ring_run_afterwards(void (*fn)(void));
void ring_run_last(void (*fn)(void));

/* holder: runs the items of the inbox, if there are any. */
static inline __attribute__((always_inline)) void ring_catch_up(struct ring *ring)
{
	ring_assert_held(ring);
	if (__builtin_expect(!inbox_empty(&ring->inbox), 0))
		ring_drain_inbox(ring);
}

/* any: waits for the ring.  False: the calling thread holds one already (handler, callback). */
static inline __attribute__((always_inline)) bool ring_hold(struct ring *ring, enum hold_mode mode)
{
	if (!hold_acquire(&ring->hold, mode))
		return false;
	ring_catch_up(ring);
	return true;
}

/*
 * holder: releases the ring, to which no work was added and no frame was put since it was taken,
 * and looks at the inbox once more: a poster that found the ring held relies on that.
 */
static inline __attribute__((always_inline)) void ring_release_clean(struct ring *ring,
								     enum hold_mode mode)
{
	ring_assert_held(ring);
	hold_release(&ring->hold, mode);
	delay_at(DELAY_HOLD_RELEASED);
	/*
	 * Pairs with the fence in ring_post().  Keeps the store that releases the ring before the
	 * load of the inbox; otherwise an item posted in between is seen neither by us nor by its
	 * poster, who still found the ring held.  HOLD_SINGLE needs no fence here: the membarrier(2)
	 * in hold.c stands for it, and after HOLD_SINGLE ring_look_after_release() was called.
	 */
	if (mode != HOLD_SINGLE)
		inbox_fence();
	if (__builtin_expect(!inbox_empty(&ring->inbox), 0))
		ring_look_again(ring, mode);
	if (__builtin_expect(ring_thread.due != 0, 0))
		ring_try_posted();
}

/* holder: the frames that were put leave. */
static inline void ring_tx_flush(struct ring *ring)
{
	ring_assert_held(ring);
	ring->tx_dirty = false;
	ring->ops->tx_flush(ring->q);
}

/* holder: runs the work, flushes the port if a frame was put, and releases the ring likewise. */
static inline __attribute__((always_inline)) void ring_release(struct ring *ring,
							       enum hold_mode mode)
{
	ring_assert_held(ring);
	if (__builtin_expect(!list_empty(&ring->work), 0))
		ring_run_late_work(ring);
	if (ring->tx_dirty)
		ring_tx_flush(ring);
	ring_release_clean(ring, mode);
}

/* any: the same for cold paths, in ring_mode_now(); the internal thread uses hold_try_single(). */
bool ring_hold_cold(struct ring *ring);
/* any: as ring_hold_cold(), but false at once when another thread holds the ring. */
bool ring_try(struct ring *ring);
void ring_release_cold(struct ring *ring);

/*
 * any: posts an item, which then runs: on this thread if the ring is free, else on its holder's.
 * The caller may hold another ring; then this thread tries after releasing that.
 */
void ring_post(struct ring *ring, struct inbox_item *item);

/*
 * any: the kernel's entry of a neighbour of this ring changed to state (mac: NEIGH_REACHABLE only).
 * Ignored if the ring has no adjacency for addr, but with NEIGH_UNKNOWN the ring makes one: the
 * caller asks the kernel next, and the ring does not miss the answer.
 */
void ring_neigh_changed(struct ring *ring, const struct inaddr *addr, enum neigh_state state,
			const uint8_t mac[6]);

/* ---- holder ----------------------------------------------------------------------- */

/*
 * One round: takes a burst of frames and delivers them, runs work and timers.
 * Returns the number of frames.
 */
int ring_poll(struct ring *ring);

/* Polls until every frame that was in the queue at the call is delivered. */
void ring_drain(struct ring *ring);

#define RING_KEEP_UP 4u /* calls between two rounds: each may bring some frames */

/*
 * One round every RING_KEEP_UP calls.  For operations that a program repeats without waiting
 * for a frame (a thousand connect(2) calls, or accept(2) of what is queued): the frames that
 * answer them would otherwise fill the port's queue and be lost.
 */
static inline void ring_keep_up(struct ring *ring)
{
	ring_assert_held(ring);
	if (++ring->unpolled >= RING_KEEP_UP)
		ring_poll(ring);
}

/* Receives a frame in ordinary memory, as if it had arrived just now; consumes it. */
void ring_receive(struct ring *ring, struct pkt *pkt);

/*
 * Lists a flow.  The port steers it to this ring, unless a listed flow brings its frames here
 * already: one with the same key, or the 3-tuple that covers it.  The caller owns the flow,
 * which stays listed until ring_flow_del().  0, -EEXIST, -ENOMEM, -ENOSPC.
 */
int ring_flow_add(struct ring *ring, struct flow *flow);
/* Does nothing when the flow is not listed. */
void ring_flow_del(struct ring *ring, struct flow *flow);
/*
 * As ring_flow_del(), but nothing that the port has received for the flow is lost; no ring held in
 * between: (1) ring_flow_cease(): the port stops to steer it here; false: it did not, or not for this flow
 * alone, which stays listed. (2) If true, port_ops.barrier. (3) ring_flow_drain(): delivers what arrived,
 * and removes the flow, or returns the packets of source_take(). (4) source_ask(). (5) ring_flow_drained().
 */
bool ring_flow_cease(struct ring *ring, struct flow *flow);
struct pkt *ring_flow_drain(struct ring *ring, struct flow *flow);
void ring_flow_drained(struct ring *ring, struct flow *flow, struct pkt *pkts);
/* holder: gives one packet to a flow, as of ->now; NULL: there is none, and it is dropped. */
void ring_flow_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt);

/*
 * Shared flows: one key with several receivers, on this ring, on other rings of the process
 * and in other processes of the port group.  ring_flow_add() of a flow that shared_flow_init()
 * prepared joins the receivers; ring_flow_del() leaves them.  The connections that a shared
 * 3-tuple covers have entries of their own in the port, so they stay on their ring when a
 * receiver joins or leaves.  ring_flow_add() then returns
 *   -EEXIST	a flow that is not shared has the key, on this ring or any other
 *   -EAGAIN	another member changes the receivers at this moment; try later
 *
 * ring_flow_share(): others may join a listed flow that was not shared so far.  The flow and
 * the connections it covers stay on this ring.  -EBUSY: the port does not steer the flow
 * itself, or others have its key; -ENOSPC and others as of ring_flow_add().  On failure the
 * flow is as before, but connections it covers may have entries of their own.
 */
int ring_flow_share(struct ring *ring, struct shared_flow *shared, uint8_t rank, bool spread);

/*
 * A handshake of a shared 3-tuple: the port steers the 5-tuple key to this ring before there
 * is a flow for it, so receivers that join the 3-tuple do not get its frames.
 * ring_flow_add_expected() takes the entry over.  -errno: there is no entry, and the frames go
 * where those of the 3-tuple go.
 *
 * ring_flow_expect_here(): moves the entry here from another ring of the interface.
 * ring_flow_unexpect(): removes the entry, unless a flow has the key.
 */
int ring_flow_expect(struct ring *ring, const struct flow_key *key);
int ring_flow_expect_here(struct ring *ring, const struct flow_key *key);
void ring_flow_unexpect(struct ring *ring, const struct flow_key *key);
/* any that has a reference: see port_ops.flow_is_foreign. */
bool ring_flow_is_foreign(const struct ring *ring, const struct flow_key *key);
/* As ring_flow_add(), for a flow whose key is expected. */
int ring_flow_add_expected(struct ring *ring, struct flow *flow);

/* A 3-tuple of TCP: the kernel has no connections at its port; see port_ops.kernel_done. */
void ring_flow_kernel_done(struct ring *ring, const struct flow *flow);

/*
 * A flow moves from one ring to another in three steps, each called by the holder of the
 * ring named:
 * (1) ring_flow_list(), new ring: lists a second flow of the same key (a stand-in), without
 *     steering.  0 or -ENOMEM.
 * (2) ring_flow_unsteer(), old ring: connections that the flow covers get entries of their
 *     own.  0: go on.  1: the flow must stay, because other flows have its key here.  -errno:
 *     the flow stays as it was.  ring_flow_resteer() undoes it.
 * (3) ring_flow_steer(), new ring: the port sends the frames to the new ring.  0 or -errno.
 */
int ring_flow_list(struct ring *ring, struct flow *flow);
int ring_flow_unsteer(struct ring *ring, struct flow *flow);
void ring_flow_resteer(struct ring *ring, struct flow *flow);
int ring_flow_steer(struct ring *ring, struct flow *flow);
/* The end of a move, on the new ring: flow replaces its stand-in. */
void ring_flow_replace(struct ring *ring, struct flow *stand_in, struct flow *flow);

/* A shared flow leaves its receivers but stays listed, for connections that began here. */
void ring_flow_stop(struct ring *ring, struct flow *flow);
/* It joins them again.  -errno as of ring_flow_add(): it stays stopped. */
int ring_flow_start(struct ring *ring, struct flow *flow);

/*
 * Imports a flow (a 5-tuple) from another process: frames come here, or, of a card, to its stand-in until that looks.
 * Errors as of ring_flow_add().
 */
int ring_flow_take(struct ring *ring, struct flow *flow);
/* Exports a flow to another process, when ring_flow_may_part(): stand_in gets its key and place.  True: the port brings
 * its frames here, and ring->parting counts it, until ring_flow_parted(): another process has it, or it is over.
 */
bool ring_flow_part(struct ring *ring, struct flow *flow, struct flow *stand_in);
bool ring_flow_parted(struct ring *ring, const struct flow *stand_in, bool over);
bool ring_flow_may_part(const struct ring *ring, const struct flow *flow);

/* Runs the work at the end of this burst, or of this hold when no burst is under way. */
static inline void ring_work_add(struct ring *ring, struct ring_work *work)
{
	ring_assert_held(ring);
	if (list_linked(&work->link)) {
		if (__builtin_expect(!work->later, 1))
			return;
		list_remove(&work->link);
	}
	work->later = false;
	list_push_back(&ring->work, &work->link);
}

/*
 * Runs the work at the end of the next poll, even one without frames, or in ring_settle().
 * Not for a function that ring_settle() runs (->settling): use ring_work_add() there.
 */
static inline void ring_work_later(struct ring *ring, struct ring_work *work)
{
	ring_assert_held(ring);
	if (list_linked(&work->link))
		return;
	work->later = true;
	list_push_back(&ring->later, &work->link);
	__atomic_store_n(&ring->has_later, true, __ATOMIC_RELAXED);
}

/* A thread that polled calls this before it blocks: runs what ring_work_later() left. */
void ring_settle(struct ring *ring);
/* any: no work waits for the next poll.  A thread that polls settles what it left itself. */
static inline bool ring_settled(const struct ring *ring)
{
	return !__atomic_load_n(&ring->has_later, __ATOMIC_RELAXED);
}

/* Runs all work that ring_work_add() added. */
void ring_run_work(struct ring *ring);

/* Stores the time of the last poll; threads that wait read ->now without holding the ring. */
static inline void ring_set_now(struct ring *ring, nsec_t now)
{
	ring_assert_held(ring);
	__atomic_store_n(&ring->now, now, __ATOMIC_RELAXED);
}

/* Counts and records a packet that is dropped; key: of its flow, NULL: it is not known. */
void ring_drop_of(struct ring *ring, enum drop reason, const struct flow_key *key);

static inline void ring_drop(struct ring *ring, enum drop reason)
{
	ring_assert_held(ring);
	ring_drop_of(ring, reason, NULL);
}

/* Records an event; sock: number of the socket that it is about, 0: none. */
static inline void ring_record(struct ring *ring, enum record_event event, uint32_t sock,
			       uint32_t argument)
{
	ring_assert_held(ring);
	recorder_write(ring->recorder, clock_now(), event, sock, argument);
}

/* Free frames are below the low-water mark: ring_keep() copies. */
static inline bool ring_is_short(const struct ring *ring)
{
	ring_assert_held(ring);
	return ring->q && ring->q->frames_free < ring->low_water;
}

/* A packet to keep must be in ordinary memory: pkt has to be copied, or is there already. */
static inline bool ring_keeps_copy(const struct ring *ring, const struct pkt *pkt)
{
	ring_assert_held(ring);
	return ring_is_short(ring) || (pkt->pool->flags & PKT_POOL_SHARED);
}

/* ring_keep() when ring_keeps_copy() is true. */
struct pkt *ring_keep_copy(struct ring *ring, struct pkt *pkt, uint32_t held, uint32_t spare);

/*
 * Returns the packet to keep in a queue that holds `held` bytes already: pkt itself while
 * there are enough free frames, else a copy in ordinary memory (pkt is freed) with `spare`
 * bytes of room behind it.  NULL: no memory, or the queue has more than its share of the
 * memory that is left; the caller still owns pkt.
 */
static inline struct pkt *ring_keep(struct ring *ring, struct pkt *pkt, uint32_t held,
				    uint32_t spare)
{
	ring_assert_held(ring);
	if (__builtin_expect(ring_keeps_copy(ring, pkt), 0))
		return ring_keep_copy(ring, pkt, held, spare);
	return pkt;
}

#define PKT_BUF 2048u /* bytes: the unit of VMA_RX_BUFS */

/* Packets in ordinary memory, which any thread may free.  NULL: no memory. */
struct pkt *pkt_blank(uint32_t room); /* empty */
struct pkt *pkt_copy(const struct pkt *pkt);
/* any: how many of PKT_BUF bytes VMA_RX_BUFS still allows. */
size_t pkt_bufs_left(void);

/*
 * The packet to post to another ring, instead of pkt: a copy in ordinary memory, so that frames
 * stay with the ring that received them (pkt is freed); or pkt itself when there is no memory,
 * which then returns through this ring's inbox when it is freed.
 */
struct pkt *ring_detach(struct ring *ring, struct pkt *pkt);

/* An empty frame to build in, or NULL: there is none. */
static inline struct pkt *ring_tx_get(struct ring *ring)
{
	ring_assert_held(ring);
	return ring->ops->tx_get(ring->q);
}

/* Queues a built frame, which leaves at the end of this hold; consumes it.  0 or -ENOBUFS. */
static inline int ring_tx_put(struct ring *ring, struct pkt *pkt)
{
	ring_assert_held(ring);
	ring->tx_dirty = true;
	ring->stats.tx_frames++;
	ring->stats.tx_bytes += pkt->frame_len;
	return ring->ops->tx_put(ring->q, pkt);
}

/* Sends a large segment now, see port_ops.tx_large; counted as the frames that it becomes. */
static inline int ring_tx_large(struct ring *ring, const struct frame_large *large)
{
	int rc = ring->ops->tx_large(ring->q, large);
	uint32_t segments = frame_large_segments(large);

	ring_assert_held(ring);
	if (!rc) {
		ring->stats.tx_frames += segments;
		ring->stats.tx_bytes += (uint64_t)segments * large->hdr + large->len;
	}
	return rc;
}

/*
 * Sends a frame to a neighbour, or lets a copy wait until its link address is known; consumes
 * pkt.  0, -ENOBUFS, or -EHOSTUNREACH: dropped (neighbour failed, too many wait, no memory).
 */
int ring_tx_to(struct ring *ring, struct adj *adj, struct pkt *pkt);

/* The adjacency for addr, the next hop to a new sender.  NULL: no memory, or ADJ_MAX are in use. */
struct adj *ring_adj_for_source(struct ring *ring, const struct inaddr *addr);

/* The neighbour's state changed: sends the packets that waited for it, or drops them. */
void ring_adj_update(struct ring *ring, struct adj *adj, enum neigh_state state,
		     const uint8_t mac[6]);

#endif
