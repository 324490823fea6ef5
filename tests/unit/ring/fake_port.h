/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port that accounts for every packet and every flow: tests see here what a ring does with
 * its port.
 */
#ifndef TESTS_UNIT_RING_FAKE_PORT_H
#define TESTS_UNIT_RING_FAKE_PORT_H

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "net/frame.h"
#include "ring/ports.h"
#include "vma_test.h"

#define FAKE_FRAMES 512
#define FAKE_ROOM 256
#define FAKE_FLOWS 512
#define FAKE_SENT 512

struct fake_sent {
	uint32_t len;
	uint8_t bytes[FAKE_ROOM];
};

struct fake_queue {
	struct port_queue base;
	struct pkt pkts[FAKE_FRAMES];
	uint8_t frames[FAKE_FRAMES][FAKE_ROOM];
	bool out[FAKE_FRAMES]; /* not in the pool of frames */
	/* what rx_burst() will return */
	struct pkt *rx[FAKE_FRAMES];
	unsigned n_rx;
	/* what was sent */
	struct fake_sent sent[FAKE_SENT];
	unsigned n_put, n_sent, flushes;
	unsigned stamping; /* calls of stamp() */
	/* what is steered to this queue */
	struct flow_key flows[FAKE_FLOWS];
	unsigned n_flows, added, deleted;
	int add_error;	/* result of the next add_flow() */
	int move_error; /* result of move_flow() */
	/* shared flows */
	/* number of calls; a member's number is its position in that order */
	unsigned joined, left;
	unsigned picked;      /* result of reuseport_pick() */
	unsigned kernel_done; /* number of calls */
	unsigned frames_of_event, usec_of_event;
	int moderate_rc;
	unsigned arms;	 /* number of calls */
	unsigned large;	 /* large segments sent */
	int large_error; /* result of tx_large() */
	bool closed;
};

static inline struct fake_queue *fake_of(struct port_queue *q)
{
	return container_of(q, struct fake_queue, base);
}

static inline struct pkt *fake_take(struct fake_queue *f)
{
	for (unsigned i = 0; i < FAKE_FRAMES; i++) {
		if (f->out[i])
			continue;
		f->out[i] = true;
		f->base.frames_free--;
		f->pkts[i] = (struct pkt){
			.frame = f->frames[i], .pool = &f->base.pool, .room = FAKE_ROOM};
		return &f->pkts[i];
	}
	return NULL;
}

static inline void fake_put(struct pkt_pool *pool, struct pkt *pkt)
{
	struct fake_queue *f = container_of(pool, struct fake_queue, base.pool);
	size_t i = (size_t)(pkt - f->pkts);

	assert_true(i < FAKE_FRAMES);
	assert_true(f->out[i]); /* otherwise it is freed twice */
	f->out[i] = false;
	f->base.frames_free++;
}

/* Number of packets that are not in the pool. */
static inline unsigned fake_missing(const struct fake_queue *f)
{
	return FAKE_FRAMES - f->base.frames_free;
}

/* ---- the operations --------------------------------------------------------------- */

static inline int fake_find(const struct fake_queue *f, const struct flow_key *key)
{
	for (unsigned i = 0; i < f->n_flows; i++) {
		if (flow_key_eq(&f->flows[i], key))
			return (int)i;
	}
	return -1;
}

static inline bool fake_steers(const struct fake_queue *f, const struct flow_key *key)
{
	return fake_find(f, key) >= 0;
}

static inline int fake_add_flow(struct port_queue *q, const struct flow_key *key)
{
	struct fake_queue *f = fake_of(q);
	int rc = f->add_error;

	f->add_error = 0;
	if (rc)
		return rc;
	if (fake_steers(f, key))
		return -EEXIST;
	assert_true(f->n_flows < FAKE_FLOWS);
	f->flows[f->n_flows++] = *key;
	f->added++;
	return 0;
}

static inline int fake_del_flow(struct port_queue *q, const struct flow_key *key)
{
	struct fake_queue *f = fake_of(q);
	int i = fake_find(f, key);

	assert_true(i >= 0); /* a flow is deleted only if it was added */
	f->flows[i] = f->flows[--f->n_flows];
	f->deleted++;
	return 0;
}

static inline void fake_close_queue(struct port_queue *q)
{
	fake_of(q)->closed = true;
}

static inline int fake_fds(struct port_queue *q, int fds[PORT_FDS_MAX])
{
	return 0;
}

static inline void fake_free_port(struct port *port)
{
}

static inline int fake_open_queue(struct port *port, struct port_queue **q, char why[PORT_WHY])
{
	return -EOPNOTSUPP;
}

static inline int fake_rx_burst(struct port_queue *q, struct pkt **pkts, int max)
{
	struct fake_queue *f = fake_of(q);
	unsigned n = f->n_rx < (unsigned)max ? f->n_rx : (unsigned)max;

	memcpy(pkts, f->rx, n * sizeof(*pkts));
	f->n_rx -= n;
	memmove(f->rx, f->rx + n, f->n_rx * sizeof(*pkts));
	return (int)n;
}

static inline bool fake_arm(struct port_queue *q)
{
	fake_of(q)->arms++;
	return fake_of(q)->n_rx == 0;
}

static inline void fake_tx_flush(struct port_queue *q)
{
	fake_of(q)->flushes++;
	fake_of(q)->n_sent = fake_of(q)->n_put;
}

static inline struct pkt *fake_tx_get(struct port_queue *q)
{
	return fake_take(fake_of(q));
}

static inline int fake_tx_large(struct port_queue *q, const struct frame_large *large)
{
	fake_of(q)->large += !fake_of(q)->large_error;
	return fake_of(q)->large_error;
}

static inline int fake_tx_put(struct port_queue *q, struct pkt *pkt)
{
	struct fake_queue *f = fake_of(q);
	struct fake_sent *sent = &f->sent[f->n_put++ % FAKE_SENT];

	sent->len = pkt->frame_len;
	memcpy(sent->bytes, pkt->frame, pkt->frame_len);
	pkt_free(pkt);
	return 0;
}

/* The queue cannot check that another queue of the test has the flow. */
static inline int fake_move_flow(struct port_queue *q, const struct flow_key *key)
{
	return fake_of(q)->move_error ? fake_of(q)->move_error : fake_add_flow(q, key);
}

static inline int fake_share_join(struct port_queue *q, const struct flow_key *key,
				  struct flow_share *share)
{
	struct fake_queue *f = fake_of(q);
	int rc = f->add_error;

	f->add_error = 0;
	if (!rc)
		share->member = (uint8_t)f->joined++;
	return rc;
}

static inline void fake_share_leave(struct port_queue *q, const struct flow_key *key,
				    const struct flow_share *share)
{
	struct fake_queue *f = fake_of(q);

	assert_true(share->member < f->joined);
	f->left++;
}

static inline int fake_share_move(struct port_queue *q, const struct flow_key *key,
				  const struct flow_share *share)
{
	struct fake_queue *f = fake_of(q);

	f->joined += !f->move_error;
	return f->move_error;
}

static inline unsigned fake_share_pick(struct port_queue *q, const struct flow_share *share,
				       const struct flow_key *key)
{
	return fake_of(q)->picked;
}

static inline void fake_kernel_done(struct port_queue *q, const struct flow_key *key)
{
	fake_of(q)->kernel_done++;
}

static inline int fake_moderate(struct port_queue *q, uint16_t frames, uint16_t usec)
{
	fake_of(q)->frames_of_event = frames;
	fake_of(q)->usec_of_event = usec;
	return fake_of(q)->moderate_rc;
}

static inline bool fake_flow_is_foreign(struct port *port, const struct flow_key *key)
{
	return false;
}

static inline void fake_addrs_gone(struct port *port, const struct inaddr *gone, unsigned n)
{
}

static inline void fake_barrier(struct port *port)
{
}

static inline void fake_fence(struct port *port)
{
}

static inline int fake_grant(struct port *port, const struct flow_key *key)
{
	return 0;
}

static inline bool fake_idle(struct port_queue *q)
{
	return q->frames_free == FAKE_FRAMES;
}

static inline void fake_at_exit(struct port_queue *q, bool held)
{
}

static inline bool fake_settle(struct port *port)
{
	return true;
}

static inline void fake_stamp(struct port_queue *q)
{
	((struct fake_queue *)q)->stamping++;
}

static inline int fake_service(struct port *port, int fds[PORT_FDS_MAX])
{
	return 0;
}

static const struct port_ops fake_ops = {
	.add_flow = fake_add_flow,
	.addrs_gone = fake_addrs_gone,
	.arm = fake_arm,
	.at_exit = fake_at_exit,
	.barrier = fake_barrier,
	.close_queue = fake_close_queue,
	.del_flow = fake_del_flow,
	.fds = fake_fds,
	.fence = fake_fence,
	.flow_is_foreign = fake_flow_is_foreign,
	.free_port = fake_free_port,
	.grant = fake_grant,
	.idle = fake_idle,
	.kernel_done = fake_kernel_done,
	.may_part = port_may_part,
	.moderate = fake_moderate,
	.move_flow = fake_move_flow,
	.open_queue = fake_open_queue,
	.part_flow = port_parts_at_once,
	.rx_burst = fake_rx_burst,
	.service = fake_service,
	.settle = fake_settle,
	.stamp = fake_stamp,
	.reuseport_join = fake_share_join,
	.reuseport_leave = fake_share_leave,
	.reuseport_move = fake_share_move,
	.reuseport_pick = fake_share_pick,
	.take_flow = fake_add_flow,
	.tx_flush = fake_tx_flush,
	.tx_get = fake_tx_get,
	.tx_large = fake_tx_large,
	.tx_put = fake_tx_put,
};

/* A kind that opens what `opener` says. */
#define FAKE_KIND(opener)                                                             \
	{                                                                             \
		.name = #opener, .takes = port_takes_all, .open = opener,             \
		.thread_begins = port_kind_ignores, .thread_ends = port_kind_ignores, \
		.forget = port_kind_ignores,                                          \
	}

static inline void fake_init(struct fake_queue *f, struct port *port)
{
	memset(f, 0, sizeof(*f));
	f->base.port = port;
	f->base.ops = &fake_ops;
	f->base.pool.put = fake_put;
	f->base.frames = FAKE_FRAMES;
	f->base.frames_free = FAKE_FRAMES;
}

/* For open_queue() of ports whose queues have operations of their own; see fake_free(). */
static inline struct port_queue *fake_new(struct port *port, const struct port_ops *ops)
{
	struct fake_queue *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	fake_init(f, port);
	f->base.ops = ops;
	return &f->base;
}

/* As close_queue(). */
static inline void fake_free(struct port_queue *q)
{
	free(fake_of(q));
}

/* ---- keys and frames ---------------------------------------------------------------- */

static inline struct flow_key key3(const char *local, uint16_t port)
{
	struct flow_key key = {
		.local = addr_v4(inet_addr(local)),
		.local_port = htons(port),
		.proto = IPPROTO_UDP,
	};

	return key;
}

static inline struct flow_key key5(const char *local, uint16_t port, const char *remote,
				   uint16_t from)
{
	struct flow_key key = key3(local, port);

	key.remote = addr_v4(inet_addr(remote));
	key.remote_port = htons(from);
	return key;
}

/* A datagram of 8 bytes, a number, as the peer of key would send it. */
static inline void fake_build(struct pkt *pkt, const struct flow_key *key, uint64_t number)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
	struct frame_params fp = {
		.src_mac = mac,
		.dst_mac = mac,
		.src = {.addr = key->remote, .port = key->remote_port},
		.dst = {.addr = key->local, .port = key->local_port},
		.proto = IPPROTO_UDP,
		.ttl = 64,
	};
	struct iovec iov = {&number, sizeof(number)};
	struct frame_template t;

	assert_int_equal(frame_template_init(&t, &fp), 0);
	pkt->frame_len = (uint32_t)frame_build_udp(&t, pkt->frame, &iov, 1, sizeof(number));
}

/* Delivers the packet to the ring. */
static inline struct pkt *fake_arrive(struct fake_queue *f, const struct flow_key *key,
				      uint64_t number)
{
	struct pkt *pkt = fake_take(f);

	assert_non_null(pkt);
	fake_build(pkt, key, number);
	f->rx[f->n_rx++] = pkt;
	return pkt;
}

#endif
