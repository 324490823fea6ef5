/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loop-back port for tests and benchmarks: frames sent by one queue arrive in others.
 *
 * Role		tx_flush(): the holder of the sending ring, under the lock of
 *		its queue.  rx_burst(): the holder of the receiving ring,
 *		without a lock.
 * Lifetime	flows and queues are on the port's lists from add to del and
 *		from open to close.  Flows are read under the `sending` lock of
 *		one queue, and changed under those of all queues.
 * Ordering	frames of one sender to one receiver stay in order.  A receiver
 *		that sees the number of a frame in its wire sees the frame.
 *		armed is read after the number was written, and set before
 *		numbers are read again, so that a blocked receiver is woken for
 *		every frame it has not seen.  A sender that finds it set clears
 *		it: while a thread polls, a stream of messages costs no system
 *		calls.
 *		Locks: the port's, then `sending` of each queue in the order of
 *		the list, then one `arriving`.
 * Progress	senders wait for senders to the same receiver, and for changes of
 *		flows; rings that send to themselves share no memory that is
 *		written.  Receivers never wait.
 */
#include "ring/loop/port_loop.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/sys.h"
#include "ring/loop/loop_internal.h"

#define FRAMES 4096u /* of a queue; also the number of its wires */
#define TX_RESERVE 64u

/*
 * A frame on its way, in the memory of the receiving queue.  The receiver only reads it: the
 * first cache line tells whether the frame is there, and begins it.
 */
struct wire {
	uint32_t number; /* atomic, the sender writes: the frame's, from 1; else: not there yet */
	uint32_t len;
	uint8_t bytes[];
};

#define AHEAD 4u
#if defined(__x86_64__)
#define PREFETCHW(p) __asm__ volatile("prefetchw %0" : : "m"(*(const char *)(p)))
#else
#define PREFETCHW(p) __builtin_prefetch(p, 1)
#endif

static inline struct wire *wire_at(const struct loop_queue *q, uint32_t i)
{
	return (struct wire *)(void *)(q->wires + (i % FRAMES) * q->port->stride);
}

/* ---- delivery, under `sending` of the sender --------------------------------- */

static void wake(struct loop_queue *q)
{
	uint64_t one = 1;

	/* Pairs with loop_arm(): its membarrier(2) stands for a fence here. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&q->armed, __ATOMIC_RELAXED) &&
	    /* pairs with the store in loop_arm(): one write(2) for each of them */
	    __atomic_exchange_n(&q->armed, false, __ATOMIC_SEQ_CST))
		sys_write(q->event_fd, &one, sizeof(one));
}

/* The next frames are for q, whose lock this takes; wakes *to, the receiver so far. */
static void deliver_to(struct loop_queue **to, struct loop_queue *q)
{
	if (*to == q)
		return;
	if (*to) {
		wake(*to);
		ck_spinlock_fas_unlock(&(*to)->arriving);
	}
	*to = q;
	if (q)
		loop_lock(&q->arriving);
}

/* Fetches the cache lines of a small frame, which the receiver read last. */
static inline void expect_write(struct wire *wire)
{
	for (size_t at = 0; at < 192; at += 64)
		PREFETCHW((uint8_t *)wire + at);
}

/* `arriving` of q.  Frames that find all wires in use are lost. */
static void deliver(struct loop_queue **to, struct loop_queue *q, const struct pkt *pkt)
{
	struct wire *wire;

	deliver_to(to, q);
	/* acquire: pairs with the store of ->tail in loop_rx_burst() */
	if (q->head - q->tail_seen >= FRAMES)
		q->tail_seen = __atomic_load_n(&q->tail, __ATOMIC_ACQUIRE);
	if (q->head - q->tail_seen >= FRAMES)
		return;
	wire = wire_at(q, q->head);
	wire->len = pkt->frame_len;
	memcpy(wire->bytes, pkt->frame, pkt->frame_len);
	/* release: pairs with arrived() */
	__atomic_store_n(&wire->number, ++q->head, __ATOMIC_RELEASE);
	expect_write(wire_at(q, q->head + AHEAD));
}

static void deliver_to_group(struct loop_queue **to, struct loop_port *port, const struct pkt *pkt,
			     const struct flow_key *key5, const struct flow_key *key3)
{
	list_for_each(link, &port->flows) {
		struct loop_flow *flow = container_of(link, struct loop_flow, link);

		if (flow_key_eq(&flow->key, key5) || flow_key_eq(&flow->key, key3))
			deliver(to, flow->queue, pkt);
	}
}

static struct loop_queue *queue_for(struct loop_queue *q, const struct flow_key *key5)
{
	struct loop_flow *flow = q->recent;
	struct loop_share *share;
	struct flow_key key3;

	if (flow && flow_key_eq(&flow->key, key5))
		return flow->queue;
	flow = loop_find_flow(q->port, key5);
	if (flow) {
		q->recent = flow;
		return flow->queue;
	}
	key3 = *key5;
	key3.remote_port = 0;
	key3 = loop_spelled(&key3);
	flow = loop_find_flow(q->port, &key3);
	if (flow)
		return flow->queue;
	share = loop_find_share(q->port, &key3);
	return share ? share->queue[loop_member_of(share, key5)] : NULL;
}

/* Only UDP and TCP arrive.  The receiver checks checksums. */
static void route(struct loop_queue **to, struct loop_queue *q, struct pkt *pkt)
{
	uint32_t len = pkt->frame_len;
	struct flow_key key5, key3;
	struct loop_queue *for_it;

	pkt->flags = PKT_CSUM_OK;
	if (len > q->port->base.can.frame_max || frame_parse(pkt, 0, &key5) != DROP_NONE)
		return;
	pkt->frame_len = len; /* as it was sent, padding included */
	if (q->port->n_gone && loop_addr_is_gone(q->port, &key5.local))
		return;
	if (__builtin_expect(addr_is_multicast(&key5.local), 0)) {
		key3 = key5;
		key3.remote_port = 0;
		key3 = loop_spelled(&key3);
		deliver_to_group(to, q->port, pkt, &key5, &key3);
		return;
	}
	for_it = queue_for(q, &key5);
	if (for_it)
		deliver(to, for_it, pkt);
}

/* ---- transmit --------------------------------------------------------------- */

static void pool_put(struct pkt_pool *pool, struct pkt *pkt)
{
	struct loop_queue *q = container_of(pool, struct loop_queue, base.pool);

	if (port_give_back(&q->base, pkt))
		return;
	q->free[q->base.frames_free++] = (uint32_t)(pkt - q->pkts);
}

static struct pkt *frame_take(struct loop_queue *q)
{
	uint32_t i = q->free[--q->base.frames_free];
	struct pkt *pkt = &q->pkts[i];

	*pkt = (struct pkt){
		.frame = q->frames + i * q->port->stride,
		.pool = &q->base.pool,
		.room = (uint32_t)q->port->stride,
	};
	return pkt;
}

static struct pkt *loop_tx_get(struct port_queue *base)
{
	return base->frames_free ? frame_take(loop_queue_of(base)) : NULL;
}

static int loop_tx_put(struct port_queue *base, struct pkt *pkt)
{
	struct loop_queue *q = loop_queue_of(base);

	pkt->next = NULL;
	*q->put_end = pkt;
	q->put_end = &pkt->next;
	return 0;
}

static void loop_tx_flush(struct port_queue *base)
{
	struct loop_queue *q = loop_queue_of(base);
	struct pkt *pkt = q->put, *next;
	struct loop_queue *to = NULL;

	if (!pkt)
		return;
	q->put = NULL;
	q->put_end = &q->put;
	loop_lock(&q->sending);
	for (; pkt; pkt = next) {
		next = pkt->next;
		route(&to, q, pkt);
		pkt_free(pkt);
	}
	deliver_to(&to, NULL);
	ck_spinlock_fas_unlock(&q->sending);
}

/* ---- receive ---------------------------------------------------------------- */

static inline bool arrived(const struct loop_queue *q, uint32_t i)
{
	/* acquire: pairs with the store of ->number in deliver() */
	return __atomic_load_n(&wire_at(q, i)->number, __ATOMIC_ACQUIRE) == i + 1;
}

/* Packets that are received leave some frames to send. */
static inline bool can_receive(const struct loop_queue *q, uint32_t tail)
{
	return q->base.frames_free > TX_RESERVE && arrived(q, tail);
}

static int loop_rx_burst(struct port_queue *base, struct pkt **pkts, int max)
{
	struct loop_queue *q = loop_queue_of(base);
	uint32_t tail = q->tail;
	int n = 0;

	for (; n < max && can_receive(q, tail); tail++) {
		const struct wire *wire = wire_at(q, tail);
		struct pkt *pkt = frame_take(q);

		memcpy(pkt->frame, wire->bytes, wire->len);
		pkt->frame_len = wire->len;
		pkts[n++] = pkt;
	}
	/* release: pairs with the load of ->tail in deliver() */
	if (n)
		__atomic_store_n(&q->tail, tail, __ATOMIC_RELEASE);
	return n;
}

static bool loop_arm(struct port_queue *base)
{
	struct loop_queue *q = loop_queue_of(base);
	uint64_t count;

	if (can_receive(q, q->tail))
		return false;
	sys_read(q->event_fd, &count, sizeof(count)); /* of an earlier frame, or EAGAIN */
	__atomic_store_n(&q->armed, true, __ATOMIC_RELAXED);
	/* Pairs with wake(): it sees ->armed, or its frame is visible from here on. */
	sys_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	return !can_receive(q, q->tail);
}

static int loop_fds(struct port_queue *base, int fds[PORT_FDS_MAX])
{
	fds[0] = loop_queue_of(base)->event_fd;
	return 1;
}

/* ---- opening and closing ---------------------------------------------------- */

static bool loop_idle(struct port_queue *base)
{
	return base->frames_free == FRAMES;
}

/* The kernel does not see these frames. */
static void loop_kernel_done(struct port_queue *q, const struct flow_key *key)
{
}

static void loop_at_exit(struct port_queue *q, bool held)
{
}

/* The wire has no clock. */
static void loop_stamp(struct port_queue *q)
{
}

static bool loop_settle(struct port *port)
{
	return true;
}

static int loop_service(struct port *port, int fds[PORT_FDS_MAX])
{
	(void)port;
	(void)fds;
	return 0;
}

static void free_queue(struct loop_queue *q)
{
	size_t size = FRAMES * q->port->stride;

	if (q->event_fd >= 0)
		sys_close(q->event_fd);
	if (q->wires)
		mem_unmap(q->wires, size);
	if (q->frames)
		mem_unmap(q->frames, size);
	mem_free(q->pkts);
	mem_free(q->free);
	mem_free(q);
}

static int loop_open_queue(struct port *base, struct port_queue **out, char why[PORT_WHY])
{
	struct loop_port *port = container_of(base, struct loop_port, base);
	struct loop_queue *q = mem_aligned(_Alignof(struct loop_queue), sizeof(*q));
	size_t size = FRAMES * port->stride;

	if (!q)
		goto fail;
	memset(q, 0, sizeof(*q));
	q->port = port;
	q->event_fd = sys_fd_hide(sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	q->wires = mem_map(size);
	q->frames = mem_map(size);
	q->pkts = mem_aligned(sizeof(struct pkt), FRAMES * sizeof(struct pkt));
	q->free = mem_alloc(FRAMES * sizeof(*q->free));
	if (q->event_fd < 0 || !q->wires || !q->frames || !q->pkts || !q->free) {
		free_queue(q);
		goto fail;
	}
	q->put_end = &q->put;
	ck_spinlock_fas_init(&q->sending);
	ck_spinlock_fas_init(&q->arriving);
	q->base = (struct port_queue){
		.port = base,
		.ops = base->ops,
		.pool.put = pool_put,
		.frames = FRAMES,
		.frames_free = FRAMES,
	};
	for (uint32_t i = 0; i < FRAMES; i++)
		q->free[i] = FRAMES - 1 - i;
	pthread_mutex_lock(&port->lock);
	list_push_back(&port->queues, &q->link);
	pthread_mutex_unlock(&port->lock);
	*out = &q->base;
	return 0;

fail:
	snprintf(why, PORT_WHY, "No memory or no descriptor for a loop-back queue.\n");
	return -ENOMEM;
}

static void loop_close_queue(struct port_queue *base)
{
	struct loop_queue *q = loop_queue_of(base);

	loop_leave_shares(q);
	loop_remove_flows(q, NULL); /* no sender delivers to it from here on */
	pthread_mutex_lock(&q->port->lock);
	list_remove(&q->link);
	pthread_mutex_unlock(&q->port->lock);
	free_queue(q);
}

static void loop_free_port(struct port *base)
{
	struct loop_port *port = container_of(base, struct loop_port, base);

	pthread_mutex_destroy(&port->lock);
	mem_free(port);
}

/* Other processes cannot use the port. */
static bool loop_flow_is_foreign(struct port *port, const struct flow_key *key)
{
	return false;
}

/* The port needs no privileges. */
static void loop_fence(struct port *port)
{
}

static int loop_grant(struct port *port, const struct flow_key *key)
{
	return 0;
}

static const struct port_ops loop_ops = {
	.add_flow = loop_add_flow,
	.addrs_gone = loop_addrs_gone,
	.arm = loop_arm,
	.at_exit = loop_at_exit,
	.barrier = loop_barrier,
	.close_queue = loop_close_queue,
	.del_flow = loop_del_flow,
	.fds = loop_fds,
	.fence = loop_fence,
	.flow_is_foreign = loop_flow_is_foreign,
	.free_port = loop_free_port,
	.grant = loop_grant,
	.idle = loop_idle,
	.kernel_done = loop_kernel_done,
	.may_part = port_may_part,
	.moderate = port_moderates_nothing,
	.move_flow = loop_move_flow,
	.open_queue = loop_open_queue,
	.part_flow = port_parts_at_once,
	.rx_burst = loop_rx_burst,
	.service = loop_service,
	.settle = loop_settle,
	.stamp = loop_stamp,
	.reuseport_join = loop_share_join,
	.reuseport_leave = loop_share_leave,
	.reuseport_move = loop_share_move,
	.reuseport_pick = loop_share_pick,
	.take_flow = loop_take_flow,
	.tx_flush = loop_tx_flush,
	.tx_get = loop_tx_get,
	.tx_put = loop_tx_put,
};

int port_loop_open(uint32_t mtu, struct port **out)
{
	struct loop_port *port = mem_zalloc(sizeof(*port));

	if (!port)
		return -ENOMEM;
	if (!hold_single_supported()) { /* see wake() */
		mem_free(port);
		return -EOPNOTSUPP;
	}
	port->base = (struct port){
		.ops = &loop_ops,
		.name = "loop",
		.mac = {2, 0, 0, 0, 0, 1},
		.mtu = mtu,
		.linger = 10, /* as VMA_XDP_LINGER */
		.can = {.must_arm = true, .frame_max = mtu + ETH_HDR + ETH_TAG},
	};
	/* Room for a packet of mtu bytes with all headers; rounded up to cache lines. */
	port->stride = (mtu + FRAME_HDR_MAX + sizeof(struct wire) + 63) / 64 * 64;
	pthread_mutex_init(&port->lock, NULL);
	list_init(&port->queues);
	list_init(&port->flows);
	list_init(&port->shares);
	*out = &port->base;
	return 0;
}

static int open_kind(int ifindex, struct port **port, char why[PORT_WHY])
{
	int rc = port_loop_open(1500, port);

	if (rc)
		snprintf(why, PORT_WHY, "No loop-back port: %s.\n", strerrordesc_np(-rc));
	else
		(*port)->ifindex = ifindex;
	return rc;
}

const struct port_kind port_loop_kind = {
	.name = "loop",
	.takes = port_takes_all,
	.open = open_kind,
	.thread_begins = port_kind_ignores,
	.thread_ends = port_kind_ignores,
	.forget = port_kind_ignores,
};
