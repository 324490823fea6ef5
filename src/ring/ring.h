/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring: the queues of a port, their frames, a flow table, a timer wheel, an
 * inbox, and every socket homed on it.
 *
 * Role		the one rule: state of a ring is touched only by the thread
 *		that holds it.  Functions marked "any" are the exceptions.
 * Lifetime	made on demand (rings.h) and type-stable: the memory of a ring
 *		is never given back while the process runs, so that a reader of
 *		a socket's home can always try to hold it.  Its port queue is
 *		closed a while after the last reference went (ring_put()).
 * Ordering	see hold.h and inbox.h.
 */
#ifndef RING_RING_H
#define RING_RING_H

#include "base/list.h"
#include "base/wheel.h"
#include "net/drop.h"
#include "ring/adj.h"
#include "ring/flow.h"
#include "ring/hold.h"
#include "ring/inbox.h"
#include "ring/port.h"
#include "ring/sleep.h"

struct timewaits;

/* Something to do at the end of a burst: once, however often it was asked for; holder. */
struct ring_work {
	struct list link;
	void (*run)(struct ring *ring, struct ring_work *work, nsec_t now);
	bool later; /* linked, and not before the next poll */
};

struct ring_stats {
	uint64_t rx_frames, rx_bytes;
	uint64_t tx_frames, tx_bytes;
	uint64_t copied; /* frames copied out because frames ran low */
	uint64_t forwarded;
	uint64_t drops[DROP_COUNT];
};

struct ring {
	/*
	 * holder and control lock to write; read by whoever has a reference, or
	 * the control lock, and by the internal thread (who closes rings)
	 */
	struct port_queue *q;	    /* NULL: closed, or retired; atomic: see ring_queue() */
	struct port_queue *dead;    /* of a retired one, until its packets are back */
	const struct port_ops *ops; /* = q->ops, or port_null_ops */
	unsigned parse_flags;	    /* for frame_parse() */
	unsigned id;
	unsigned low_water;    /* below so many free frames, what is kept is copied out */
	int ifindex;	       /* 0: closed, or retired */
	uint64_t key;	       /* of the allocation logic */
	struct inaddr addr;    /* the interface's first, for IP_PKTINFO of multicast */
	int fds[PORT_FDS_MAX]; /* atomic: see ring_fds() */
	int n_fds;

	/* control lock */
	nsec_t unused_since; /* 0: it is in use, or nobody looked yet */
	bool retired;	     /* see ring_retire() */

	/* any, atomic */
	struct inbox inbox __attribute__((aligned(64)));
	struct hold hold;
	bool has_later; /* written by the holder, see ring_settled() */
	uint32_t polls; /* written by the holder, read by the internal thread */
	uint32_t arms;	/* of timers, likewise: see ring_arm() */
	uint32_t refs;	/* sockets, flows and destinations that need the ring */

	/* holder */
	struct wheel wheel __attribute__((aligned(64)));
	struct flow_table flows;
	struct adj_table adjs;
	struct adj direct; /* stands for a neighbour whose address a template carries */
	struct list work;  /* of struct ring_work */
	struct list later; /* the same, until the next poll */
	struct {
		uint64_t pair;	     /* as source_pair(); of the last datagram that was accepted */
		uint32_t generation; /* netlink_generation() then */
	} sender;
	struct list questions; /* of source.c: what the kernel is asked of senders */
	unsigned n_questions;
	unsigned n_waiting;	     /* packets, for their answers */
	bool settling;		     /* ring_settle() runs it */
	bool tx_dirty;		     /* something was put since the last flush */
	uint16_t ip_id;		     /* of the last datagram that was fragmented */
	nsec_t now;		     /* of the last poll; atomic: see ring_set_now() */
	unsigned unpolled;	     /* calls since the last poll: ring_keep_up() */
	struct timewaits *timewaits; /* sock's: sock/tcp/timewait.h; NULL: it has none here */
	struct ring_stats stats;

	/* any: the threads that sleep until frames come */
	struct sleep_place sleepers __attribute__((aligned(64)));
};

/* The thread mode of this process; set once, before the first ring is made. */
extern enum hold_mode ring_mode;

/* q may be NULL: a ring without a port, home of sockets that have none yet. */
void ring_init(struct ring *ring, struct port_queue *q, unsigned id);

/* holder, control lock: a closed ring gets a queue; one that nobody needs loses it. */
void ring_open(struct ring *ring, struct port_queue *q);
void ring_close(struct ring *ring);

/*
 * holder, control lock: its interface is gone for good.  Connections stay, and their timers
 * run; nothing comes and nothing goes any more.  No destination may know a neighbour of it;
 * packets that somebody keeps are to be given back, which closes the queue.
 */
void ring_retire(struct ring *ring);
/* Nobody has a reference any more: it may be opened again. */
void ring_recycle(struct ring *ring);

/* What became of its frames, for the log. */
void ring_log_stats(const struct ring *ring);
/* The process ends, and other threads may still use the ring: see port_ops. */
void ring_at_exit(struct ring *ring);

/* ---- any ------------------------------------------------------------------------ */

/* The queue at this moment, without a reference to the ring; pairs with ring_open(). */
static inline struct port_queue *ring_queue(const struct ring *ring)
{
	return __atomic_load_n(&ring->q, __ATOMIC_ACQUIRE);
}

/*
 * What the leader of ->sleepers, or the internal thread, sleeps on; how many.  Of a
 * ring that is opened or closed meanwhile it may be others: it calls all afterwards.
 */
static inline int ring_fds(const struct ring *ring, int fds[PORT_FDS_MAX])
{
	int n = __atomic_load_n(&ring->n_fds, __ATOMIC_ACQUIRE); /* pairs with ring_open() */

	for (int i = 0; i < n; i++)
		fds[i] = __atomic_load_n(&ring->fds[i], __ATOMIC_RELAXED);
	return n;
}

/* A socket that lives on it, a flow, a destination: the ring stays open. */
static inline void ring_get(struct ring *ring)
{
	__atomic_fetch_add(&ring->refs, 1, __ATOMIC_RELAXED);
}

/* Pairs with rings_close_unused(): what the last user did is done. */
static inline void ring_put(struct ring *ring)
{
	__atomic_fetch_sub(&ring->refs, 1, __ATOMIC_RELEASE);
}

void ring_drain_inbox(struct ring *ring);
void ring_look_again(struct ring *ring, enum hold_mode mode);
void ring_run_late_work(struct ring *ring);

/*
 * Rings this thread posted to while it held one; they are tried afterwards.  And
 * functions that are to run then.
 */
#define RING_POSTED_MAX 8
#define RING_AFTERWARDS 2
struct ring_thread {
	union {
		struct {
			uint16_t posted;  /* more than RING_POSTED_MAX: all rings are tried */
			uint16_t put_off; /* signal handlers too: they wait, see base/busy.h */
		};
		uint32_t due; /* is there anything of this to do? One load */
	};
	bool internal; /* this is the internal thread */
	struct ring *to[RING_POSTED_MAX];
	void (*afterwards[RING_AFTERWARDS])(void);
};
extern __thread struct ring_thread ring_thread __attribute__((tls_model("initial-exec")));

/* Does what is due, as far as no ring is held. */
void ring_try_posted(void);

/*
 * holder: fn runs on this thread, once, as soon as it holds no ring.  There are
 * RING_AFTERWARDS such functions in all: it is not a queue.
 */
void ring_run_afterwards(void (*fn)(void));

/* holder: runs what was posted. */
static inline __attribute__((always_inline)) void ring_catch_up(struct ring *ring)
{
	if (__builtin_expect(!inbox_empty(&ring->inbox), 0))
		ring_drain_inbox(ring);
}

/* False when the calling thread holds a ring already (signal handler, callback). */
static inline __attribute__((always_inline)) bool ring_hold(struct ring *ring, enum hold_mode mode)
{
	if (!hold_acquire(&ring->hold, mode))
		return false;
	ring_catch_up(ring);
	return true;
}

/*
 * Runs the work, kicks the wire if something was queued, lets go, and looks at
 * the inbox once more: a poster that found the ring held counts on it.
 */
static inline __attribute__((always_inline)) void ring_release(struct ring *ring,
							       enum hold_mode mode)
{
	if (__builtin_expect(!list_empty(&ring->work), 0))
		ring_run_late_work(ring);
	if (ring->tx_dirty) {
		ring->tx_dirty = false;
		ring->ops->tx_flush(ring->q);
	}
	hold_release(&ring->hold, mode);
	delay_at(DELAY_HOLD_RELEASED);
	/*
	 * Keeps the store that lets go before the load of the inbox; otherwise
	 * an item posted in between is seen neither by us nor by a poster that
	 * still found the ring held.  HOLD_SINGLE: posters use membarrier(2).
	 */
	if (mode != HOLD_SINGLE)
		inbox_fence();
	if (__builtin_expect(!inbox_empty(&ring->inbox), 0))
		ring_look_again(ring, mode);
	if (__builtin_expect(ring_thread.due != 0, 0))
		ring_try_posted();
}

/*
 * For cold paths: the mode is looked up, and the internal thread may call them
 * (in HOLD_SINGLE it comes in by another door).
 */
bool ring_hold_cold(struct ring *ring);
bool ring_try(struct ring *ring); /* does not wait for another thread of the program */
void ring_release_cold(struct ring *ring);

/*
 * Posts an item and sees to it that it runs: by us if the ring is free, by its
 * holder otherwise.  May be called while holding another ring.
 */
void ring_post(struct ring *ring, struct inbox_item *item);

/*
 * The kernel knows something new of a neighbour of this ring; it matters only if
 * the ring ever sent there.  NEIGH_UNKNOWN: somebody is going to, and asks the
 * kernel next: from now on no answer is missed.
 */
void ring_neigh_changed(struct ring *ring, const struct inaddr *addr, enum neigh_state state,
			const uint8_t mac[6]);

/* ---- holder ----------------------------------------------------------------------- */

static inline void ring_assert_held(const struct ring *ring)
{
#ifndef NDEBUG
	if (hold_current != &ring->hold)
		__builtin_trap();
#else
	(void)ring;
#endif
}

/*
 * One round: takes a burst of frames and delivers them, runs work and timers.
 * Returns the number of frames.
 */
int ring_poll(struct ring *ring);

/* holder: as many rounds as it takes to deliver every frame that is in the queue now. */
void ring_drain(struct ring *ring);

#define RING_KEEP_UP 4u /* calls: of each, some frames come */

/*
 * For calls that a program makes many of without waiting for a frame (a thousand times
 * connect(2), or accept(2) of what is queued): a round for some of them.  What
 * answers them would fill the port's queue meanwhile, and be lost.
 */
static inline void ring_keep_up(struct ring *ring)
{
	if (++ring->unpolled >= RING_KEEP_UP)
		ring_poll(ring);
}

/* A frame in ordinary memory, as if it had come just now; consumes it. */
void ring_receive(struct ring *ring, struct pkt *pkt);

/*
 * Adds a flow, and has the port steer it here unless another flow does that
 * already: one of the same key, or the 3-tuple of a listener.  -EEXIST, -ENOMEM,
 * -ENOSPC.
 */
int ring_flow_add(struct ring *ring, struct flow *flow);
/* Harmless when it is not there. */
void ring_flow_del(struct ring *ring, struct flow *flow);
/* As ring_flow_del(), but what the port has for it by now is delivered first. */
void ring_flow_drain(struct ring *ring, struct flow *flow);

/*
 * The receivers of a flow.  Whoever adds a shared flow (shared_flow_init()) joins them,
 * whoever removes it leaves: on this ring, on others of the process, and in other
 * processes of the port group alike.  The connections of a shared listener have entries
 * of their own in the port, so they stay where they are.  -EEXIST from ring_flow_add():
 * the flow belongs to one who does not share, of this ring or another one, whoever that
 * is; -EAGAIN: others are at it, later it works.
 *
 * ring_flow_share(): a listed flow that was its owner's alone may be joined from now
 * on.  It stays where it is, and so do its connections.  -EBUSY: it is not steered
 * itself; -ENOSPC and others as of ring_flow_add(): nothing has changed, but that
 * connections may have entries of their own.
 */
int ring_flow_share(struct ring *ring, struct shared_flow *shared, uint8_t rank, bool spread);

/*
 * The pair of a handshake whose listener is shared: its frames come here before there is
 * a flow for it, and whoever joins the listener does not get them.  ring_flow_add() takes
 * the entry over.  -errno: they come as the listener's do.
 *
 * ring_flow_expect_here(): it was expected on another ring of the interface so far.
 * ring_flow_unexpect(): no more, unless a flow took it over.
 */
int ring_flow_expect(struct ring *ring, const struct flow_key *key);
int ring_flow_expect_here(struct ring *ring, const struct flow_key *key);
void ring_flow_unexpect(struct ring *ring, const struct flow_key *key);
/* As ring_flow_add(), of a flow whose key is expected. */
int ring_flow_add_expected(struct ring *ring, struct flow *flow);

/* Of a listener: the kernel has no connections at its port, see port_ops.kernel_done. */
void ring_flow_kernel_done(struct ring *ring, const struct flow *flow);

/*
 * A flow moves from one ring to another in three steps, each by the holder of that
 * ring.  (1) On the new one a second flow of the same key is listed, not steered.
 * (2) ring_flow_unsteer() on the old one: what it brought frames for by the way
 * gets entries of its own; 1: it stays, other flows of the key live here; -errno:
 * it stays as it was (ring_flow_resteer()).  (3) ring_flow_steer() on the new one:
 * frames come here from now on.
 */
int ring_flow_list(struct ring *ring, struct flow *flow);
int ring_flow_unsteer(struct ring *ring, struct flow *flow);
void ring_flow_resteer(struct ring *ring, struct flow *flow);
int ring_flow_steer(struct ring *ring, struct flow *flow);
/* The end of it, on the new ring: flow takes the place of the one that stood for it. */
void ring_flow_replace(struct ring *ring, struct flow *stand_in, struct flow *flow);

/* A shared flow leaves the other receivers, and is still listed for what has begun here. */
void ring_flow_stop(struct ring *ring, struct flow *flow);
/* And joins them again.  0, or -errno as ring_flow_add(): it stays as it is. */
int ring_flow_start(struct ring *ring, struct flow *flow);

/*
 * A connection comes from another process: its frames come here from now on.  The other
 * one lists a stand-in that drops what still arrives there (ring_flow_part()) until we
 * have told it.  As ring_flow_add().
 */
int ring_flow_take(struct ring *ring, struct flow *flow);
/*
 * A connection goes to another process: stand_in, which has flow's key set here and its
 * deliver function, takes flow's place.  What the port steers is not changed, and is
 * nobody's of this process any more.
 */
void ring_flow_part(struct ring *ring, struct flow *flow, struct flow *stand_in);

/* Runs at the end of this burst, or of this hold when no burst is under way. */
static inline void ring_work_add(struct ring *ring, struct ring_work *work)
{
	if (list_linked(&work->link)) {
		if (__builtin_expect(!work->later, 1))
			return;
		list_remove(&work->link);
	}
	work->later = false;
	list_push_back(&ring->work, &work->link);
}

/* Runs at the end of the next poll, whatever that brings; not while settling. */
static inline void ring_work_later(struct ring *ring, struct ring_work *work)
{
	if (list_linked(&work->link))
		return;
	work->later = true;
	list_push_back(&ring->later, &work->link);
	__atomic_store_n(&ring->has_later, true, __ATOMIC_RELAXED);
}

/*
 * Whoever polled it and is going to sleep: work that was left to the next poll runs
 * now.  any: is there some?  What others leave while they poll is theirs to do.
 */
void ring_settle(struct ring *ring);
static inline bool ring_settled(const struct ring *ring)
{
	return !__atomic_load_n(&ring->has_later, __ATOMIC_RELAXED);
}

void ring_run_work(struct ring *ring);

/* Who waits for a socket of the ring reads it, too. */
static inline void ring_set_now(struct ring *ring, nsec_t now)
{
	__atomic_store_n(&ring->now, now, __ATOMIC_RELAXED);
}

static inline void ring_drop(struct ring *ring, enum drop reason)
{
	ring->stats.drops[reason]++;
}

/* Frames run short: what is kept is copied. */
static inline bool ring_is_short(const struct ring *ring)
{
	return ring->q && ring->q->frames_free < ring->low_water;
}

/* What is kept of pkt is a copy: to be made, or pkt is one already. */
static inline bool ring_keeps_copy(const struct ring *ring, const struct pkt *pkt)
{
	return ring_is_short(ring) || (pkt->pool->flags & PKT_POOL_SHARED);
}

/* As ring_keep(), where ring_keeps_copy() says so. */
struct pkt *ring_keep_copy(struct ring *ring, struct pkt *pkt, uint32_t held, uint32_t spare);

/*
 * The packet to keep in a queue of unknown length that holds so many bytes already: pkt
 * itself while frames are plenty, else a copy in ordinary memory (pkt is freed) with spare
 * bytes of room behind it.  NULL, and pkt is still the caller's: no memory, or the queue
 * has more than its share of what is left.
 */
static inline struct pkt *ring_keep(struct ring *ring, struct pkt *pkt, uint32_t held,
				    uint32_t spare)
{
	if (__builtin_expect(ring_keeps_copy(ring, pkt), 0))
		return ring_keep_copy(ring, pkt, held, spare);
	return pkt;
}

/* What VMA_RX_BUFS counts, in bytes. */
#define PKT_BUF 2048u

/* In ordinary memory that anybody may free; NULL: no memory.  A copy; an empty one. */
struct pkt *pkt_blank(uint32_t room);
struct pkt *pkt_copy(const struct pkt *pkt);

/*
 * The packet to give to another ring: a copy, so that frames stay where frames
 * arrive; itself when there is no memory, and it comes home when it was freed.
 */
struct pkt *ring_travel(struct ring *ring, struct pkt *pkt);

/* An empty frame, or NULL. */
static inline struct pkt *ring_tx_get(struct ring *ring)
{
	return ring->ops->tx_get(ring->q);
}

/* Sends a built frame at the end of this hold; consumes it. */
static inline int ring_tx_put(struct ring *ring, struct pkt *pkt)
{
	ring->tx_dirty = true;
	ring->stats.tx_frames++;
	ring->stats.tx_bytes += pkt->frame_len;
	return ring->ops->tx_put(ring->q, pkt);
}

/* Sends to a neighbour, or lets the frame wait for its address; consumes it. */
int ring_tx_to(struct ring *ring, struct adj *adj, struct pkt *pkt);

/*
 * The neighbour by which a sender is answered that nobody has heard of before, made if
 * there is none.  NULL: no memory, or there are ADJ_MAX, and all are in use.
 */
struct adj *ring_adj_for_source(struct ring *ring, const struct inaddr *addr);

/* What is known of a neighbour now: packets that waited go out, or are dropped. */
void ring_adj_update(struct ring *ring, struct adj *adj, enum neigh_state state,
		     const uint8_t mac[6]);

#endif
