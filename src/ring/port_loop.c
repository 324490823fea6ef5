/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loop-back port: a wire for tests and benches.
 *
 * Role		tx_flush(): the holder of the sending ring, under the lock of
 *		its queue.  rx_burst(): the holder of the receiving ring,
 *		without a lock.
 * Lifetime	flows and queues are on the port's lists from add to del and
 *		from open to close.  Flows are read under the `sending` lock of
 *		one queue, and changed under those of all queues.
 * Ordering	frames of one sender to one receiver stay in order.  A frame is
 *		visible to whoever saw `head` beyond it.  signalled is set
 *		after head and cleared before head is read again, so that a
 *		sleeper is woken for every frame it has not seen.
 *		Locks: the port's, then `sending` of each queue as they are on
 *		the list, then one `arriving`.
 * Progress	senders wait for those to the same receiver, and for changes of
 *		flows; rings that send to themselves share nothing that is
 *		written.  Receivers wait for nobody.
 */
#include "ring/port.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/list.h"
#include "base/mem.h"
#include "base/sys.h"

#define FRAMES 4096u /* of a queue; also what its wire holds */
#define TX_RESERVE 64u

/* A frame on its way, in the memory of the receiving queue. */
struct wire {
	uint32_t len;
	uint8_t bytes[];
};

struct loop_port {
	struct port base;
	/* set when opened */
	size_t stride; /* of wires and of frames */
	pthread_mutex_t lock;
	struct list queues; /* lock */
	struct list flows;  /* `sending` of a queue to read, freeze() to write */
};

struct loop_flow {
	struct list link;
	struct flow_key key;
	struct loop_queue *queue;
};

struct loop_queue {
	struct port_queue base;
	/* set when opened */
	struct loop_port *port;
	struct list link; /* of port->queues; lock of the port */
	uint8_t *wires;
	uint8_t *frames;
	struct pkt *pkts;
	uint32_t *free;
	int event_fd;
	/* holder */
	struct pkt *put, **put_end; /* since the last flush */
	pthread_mutex_t sending;    /* the holder flushes, with the flows as they are */
	/* senders, under `arriving` */
	_Alignas(64) pthread_mutex_t arriving;
	uint32_t head; /* atomic: read by the holder */
	/* holder */
	_Alignas(64) uint32_t tail; /* atomic: read by senders */
	/* any, atomic */
	_Alignas(64) bool sleeps; /* somebody asked for the descriptor */
	bool signalled;		  /* event_fd is readable, or about to be */
};

static inline struct loop_queue *queue_of(struct port_queue *q)
{
	return container_of(q, struct loop_queue, base);
}

static inline struct wire *wire_at(const struct loop_queue *q, uint32_t i)
{
	return (struct wire *)(void *)(q->wires + (i % FRAMES) * q->port->stride);
}

/* One spelling of "from anybody". */
static struct flow_key spelled(const struct flow_key *key)
{
	struct flow_key one = *key;

	if (!one.remote_port)
		memset(&one.remote, 0, sizeof(one.remote));
	return one;
}

/* ---- delivery, under `sending` of the sender --------------------------------- */

static void wake(struct loop_queue *q)
{
	uint64_t one = 1;

	/* Pairs with loop_fds(): it sets sleeps and looks at head afterwards. */
	if (!__atomic_load_n(&q->sleeps, __ATOMIC_SEQ_CST))
		return;
	/* Pairs with unsignal(). */
	if (!__atomic_exchange_n(&q->signalled, true, __ATOMIC_ACQ_REL))
		sys_write(q->event_fd, &one, sizeof(one));
}

/* A wire that is full loses frames, as wires do. */
static void deliver(struct loop_queue *q, const struct pkt *pkt)
{
	struct wire *wire;
	uint32_t head;

	pthread_mutex_lock(&q->arriving);
	head = q->head;
	wire = wire_at(q, head);
	if (head - __atomic_load_n(&q->tail, __ATOMIC_ACQUIRE) < FRAMES) {
		wire->len = pkt->frame_len;
		memcpy(wire->bytes, pkt->frame, pkt->frame_len);
		__atomic_store_n(&q->head, head + 1, __ATOMIC_SEQ_CST); /* pairs with pending() */
		wake(q);
	}
	pthread_mutex_unlock(&q->arriving);
}

static struct loop_flow *find_flow(struct loop_port *port, const struct flow_key *key)
{
	list_for_each(link, &port->flows) {
		struct loop_flow *flow = container_of(link, struct loop_flow, link);

		if (flow_key_eq(&flow->key, key))
			return flow;
	}
	return NULL;
}

static void deliver_to_group(struct loop_port *port, const struct pkt *pkt,
			     const struct flow_key *key5, const struct flow_key *key3)
{
	list_for_each(link, &port->flows) {
		struct loop_flow *flow = container_of(link, struct loop_flow, link);

		if (flow_key_eq(&flow->key, key5) || flow_key_eq(&flow->key, key3))
			deliver(flow->queue, pkt);
	}
}

/* What is no UDP or TCP, or damaged, reaches nobody. */
static void route(struct loop_port *port, struct pkt *pkt)
{
	uint32_t len = pkt->frame_len;
	struct flow_key key5, key3;
	struct loop_flow *flow;

	if (len > port->base.mtu + ETH_HDR + 4 || frame_parse(pkt, 0, &key5) != DROP_NONE)
		return;
	pkt->frame_len = len; /* as it was sent, padding included */
	key3 = key5;
	key3.remote_port = 0;
	key3 = spelled(&key3);
	if (addr_is_multicast(&key5.local)) {
		deliver_to_group(port, pkt, &key5, &key3);
		return;
	}
	flow = find_flow(port, &key5);
	if (!flow)
		flow = find_flow(port, &key3);
	if (flow)
		deliver(flow->queue, pkt);
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
	return base->frames_free ? frame_take(queue_of(base)) : NULL;
}

static int loop_tx_put(struct port_queue *base, struct pkt *pkt)
{
	struct loop_queue *q = queue_of(base);

	pkt->next = NULL;
	*q->put_end = pkt;
	q->put_end = &pkt->next;
	return 0;
}

static void loop_tx_flush(struct port_queue *base)
{
	struct loop_queue *q = queue_of(base);
	struct pkt *pkt = q->put, *next;

	if (!pkt)
		return;
	q->put = NULL;
	q->put_end = &q->put;
	pthread_mutex_lock(&q->sending);
	for (; pkt; pkt = next) {
		next = pkt->next;
		route(q->port, pkt);
		pkt_free(pkt);
	}
	pthread_mutex_unlock(&q->sending);
}

/* ---- receive ---------------------------------------------------------------- */

static inline bool pending(const struct loop_queue *q)
{
	/* Pairs with deliver(). */
	return __atomic_load_n(&q->head, __ATOMIC_SEQ_CST) != q->tail;
}

/*
 * The descriptor is not readable any more, unless a sender is about to write
 * it: then its signal stays, and the next call takes it.
 */
static void unsignal(struct loop_queue *q)
{
	uint64_t count;

	if (__atomic_load_n(&q->signalled, __ATOMIC_ACQUIRE) &&
	    sys_read(q->event_fd, &count, sizeof(count)) > 0)
		(void)__atomic_exchange_n(&q->signalled, false, __ATOMIC_ACQ_REL); /* wake() */
}

static int loop_rx_burst(struct port_queue *base, struct pkt **pkts, int max)
{
	struct loop_queue *q = queue_of(base);
	int n = 0;

	unsignal(q);
	while (n < max && base->frames_free > TX_RESERVE && pending(q)) {
		const struct wire *wire = wire_at(q, q->tail);
		struct pkt *pkt = frame_take(q);

		memcpy(pkt->frame, wire->bytes, wire->len);
		pkt->frame_len = wire->len;
		pkts[n++] = pkt;
		__atomic_store_n(&q->tail, q->tail + 1,
				 __ATOMIC_RELEASE); /* pairs with deliver() */
	}
	return n;
}

static bool loop_rx_pending(struct port_queue *base)
{
	return pending(queue_of(base));
}

static int loop_fds(struct port_queue *base, int fds[PORT_FDS_MAX])
{
	struct loop_queue *q = queue_of(base);

	/* Pairs with wake(): a frame it did not signal is seen by pending(). */
	__atomic_store_n(&q->sleeps, true, __ATOMIC_SEQ_CST);
	if (pending(q))
		wake(q);
	fds[0] = q->event_fd;
	return 1;
}

/* ---- flows ------------------------------------------------------------------ */

/* From here to thaw() nobody sends: no frame is on its way, and flows may change. */
static void freeze(struct loop_port *port)
{
	pthread_mutex_lock(&port->lock);
	list_for_each(link, &port->queues)
		pthread_mutex_lock(&container_of(link, struct loop_queue, link)->sending);
}

static void thaw(struct loop_port *port)
{
	list_for_each(link, &port->queues)
		pthread_mutex_unlock(&container_of(link, struct loop_queue, link)->sending);
	pthread_mutex_unlock(&port->lock);
}

/* A group may have members on several queues; all else comes to one. */
static bool is_taken(const struct loop_queue *q, const struct flow_key *key)
{
	list_for_each(link, &q->port->flows) {
		const struct loop_flow *flow = container_of(link, struct loop_flow, link);

		if (flow_key_eq(&flow->key, key) &&
		    (flow->queue == q || !addr_is_multicast(&key->local)))
			return true;
	}
	return false;
}

static int loop_add_flow(struct port_queue *base, const struct flow_key *key)
{
	struct loop_queue *q = queue_of(base);
	struct loop_flow *flow = mem_alloc(sizeof(*flow));
	bool taken;

	if (!flow)
		return -ENOMEM;
	*flow = (struct loop_flow){.key = spelled(key), .queue = q};
	freeze(q->port);
	taken = is_taken(q, &flow->key);
	if (!taken)
		list_push_back(&q->port->flows, &flow->link);
	thaw(q->port);
	if (taken)
		mem_free(flow);
	return taken ? -EEXIST : 0;
}

/* Removes the flows of q that have this key, all of them for NULL; how many. */
static int remove_flows(struct loop_queue *q, const struct flow_key *key)
{
	int n = 0;

	freeze(q->port);
	list_for_each_safe(link, &q->port->flows) {
		struct loop_flow *flow = container_of(link, struct loop_flow, link);

		if (flow->queue != q || (key && !flow_key_eq(&flow->key, key)))
			continue;
		list_remove(link);
		mem_free(flow);
		n++;
	}
	thaw(q->port);
	return n;
}

static int loop_del_flow(struct port_queue *base, const struct flow_key *key)
{
	struct flow_key one = spelled(key);

	return remove_flows(queue_of(base), &one) ? 0 : -ENOENT;
}

static int loop_move_flow(struct port_queue *base, const struct flow_key *key)
{
	struct loop_queue *q = queue_of(base);
	struct flow_key one = spelled(key);
	struct loop_flow *flow;

	freeze(q->port);
	flow = find_flow(q->port, &one);
	if (flow)
		flow->queue = q;
	thaw(q->port);
	return flow ? 0 : -ENOENT;
}

static void loop_barrier(struct port *base)
{
	struct loop_port *port = container_of(base, struct loop_port, base);

	freeze(port);
	thaw(port);
}

/* ---- opening and closing ---------------------------------------------------- */

static bool loop_idle(struct port_queue *base)
{
	return base->frames_free == FRAMES;
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
	pthread_mutex_init(&q->sending, NULL);
	pthread_mutex_init(&q->arriving, NULL);
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
	struct loop_queue *q = queue_of(base);

	remove_flows(q, NULL); /* nobody delivers to it from here on */
	pthread_mutex_lock(&q->port->lock);
	list_remove(&q->link);
	pthread_mutex_unlock(&q->port->lock);
	pthread_mutex_destroy(&q->sending);
	pthread_mutex_destroy(&q->arriving);
	free_queue(q);
}

static void loop_free_port(struct port *base)
{
	struct loop_port *port = container_of(base, struct loop_port, base);

	pthread_mutex_destroy(&port->lock);
	mem_free(port);
}

static const struct port_ops loop_ops = {
	.add_flow = loop_add_flow,
	.barrier = loop_barrier,
	.close_queue = loop_close_queue,
	.del_flow = loop_del_flow,
	.fds = loop_fds,
	.free_port = loop_free_port,
	.idle = loop_idle,
	.move_flow = loop_move_flow,
	.open_queue = loop_open_queue,
	.rx_burst = loop_rx_burst,
	.rx_pending = loop_rx_pending,
	.service = loop_service,
	.tx_flush = loop_tx_flush,
	.tx_get = loop_tx_get,
	.tx_put = loop_tx_put,
};

int port_loop_open(uint32_t mtu, struct port **out)
{
	struct loop_port *port = mem_zalloc(sizeof(*port));

	if (!port)
		return -ENOMEM;
	port->base = (struct port){
		.ops = &loop_ops,
		.name = "loop",
		.mac = {2, 0, 0, 0, 0, 1},
		.mtu = mtu,
	};
	/* A full segment with every header there may be; rounded to cache lines. */
	port->stride = (mtu + FRAME_HDR_MAX + sizeof(struct wire) + 63) / 64 * 64;
	pthread_mutex_init(&port->lock, NULL);
	list_init(&port->queues);
	list_init(&port->flows);
	*out = &port->base;
	return 0;
}
