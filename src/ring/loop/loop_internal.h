/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of the loop-back port: see port_loop.c. */
#ifndef RING_LOOP_LOOP_INTERNAL_H
#define RING_LOOP_LOOP_INTERNAL_H

#include <ck_spinlock.h>
#include <pthread.h>
#include <string.h>

#include "base/list.h"
#include "ring/loop/port_loop.h"

#define LOOP_GONE 64 /* most addresses that the host has lost */

struct loop_port {
	struct port base;
	/* set when opened */
	size_t stride; /* bytes from one wire to the next, and from one frame to the next */
	pthread_mutex_t lock;
	struct list queues; /* lock */
	/* read under `sending` of a queue, written between freeze() and thaw() */
	struct list flows;
	struct list shares;
	uint16_t last_share;
	struct inaddr gone[LOOP_GONE];
	unsigned n_gone;
};

struct loop_flow {
	struct list link;
	struct flow_key key;
	struct loop_queue *queue;
};

/* A shared flow. */
struct loop_share {
	struct list link;
	struct flow_key key;
	uint16_t at;
	struct reuseport_members members;
	struct loop_queue *queue[REUSEPORT_MEMBERS];
	uint8_t bucket[REUSEPORT_BUCKETS];
};

struct loop_queue {
	struct port_queue base;
	/* set when opened */
	struct loop_port *port;
	struct list link; /* of port->queues; the port's lock */
	uint8_t *wires;
	uint8_t *frames;
	struct pkt *pkts;
	uint32_t *free;
	int event_fd;
	/* holder */
	struct pkt *put, **put_end; /* packets put since the last flush */
	ck_spinlock_fas_t sending;  /* held while the holder flushes: flows do not change */
	struct loop_flow *recent;   /* sending: flow of the last frame; may be NULL */
	/* senders, under `arriving` */
	_Alignas(64) ck_spinlock_fas_t arriving;
	uint32_t head;
	uint32_t tail_seen; /* an old value of tail */
	/* holder */
	_Alignas(64) uint32_t tail; /* atomic: read by senders */
	/* any, atomic */
	_Alignas(64) bool armed; /* the next frame makes event_fd readable */
};

static inline struct loop_queue *loop_queue_of(struct port_queue *q)
{
	return container_of(q, struct loop_queue, base);
}

/* The key with one form for "any sender". */
static inline struct flow_key loop_spelled(const struct flow_key *key)
{
	struct flow_key one = *key;

	if (!one.remote_port)
		memset(&one.remote, 0, sizeof(one.remote));
	return one;
}

/* Spins briefly: the lock's holder is done soon, unless it lost its processor. */
static inline void loop_lock(ck_spinlock_fas_t *spin)
{
	if (__builtin_expect(!ck_spinlock_fas_trylock(spin), 0))
		hold_lock_slow(spin, HOLD_SPINS_SHARED);
}

/* ---- port_loop_flow.c ----------------------------------------------------------------------- */

/* `sending` of a queue: the flow or shared flow with exactly this key; NULL: there is none. */
struct loop_flow *loop_find_flow(struct loop_port *port, const struct flow_key *key);
struct loop_share *loop_find_share(struct loop_port *port, const struct flow_key *key);
/* The number of the member that gets frames from key5's sender. */
unsigned loop_member_of(const struct loop_share *share, const struct flow_key *key5);

/* holder: removes the flows of q with this key, or all if key is NULL; returns their number. */
int loop_remove_flows(struct loop_queue *q, const struct flow_key *key);
/* holder, before the queue is closed: removes its members of all shared flows. */
void loop_leave_shares(struct loop_queue *q);

/* Operations of struct port_ops. */
int loop_add_flow(struct port_queue *base, const struct flow_key *key);
int loop_del_flow(struct port_queue *base, const struct flow_key *key);
int loop_move_flow(struct port_queue *base, const struct flow_key *key);
int loop_take_flow(struct port_queue *base, const struct flow_key *key);
int loop_share_join(struct port_queue *base, const struct flow_key *key, struct flow_share *part);
void loop_share_leave(struct port_queue *base, const struct flow_key *key,
		      const struct flow_share *part);
int loop_share_move(struct port_queue *base, const struct flow_key *key,
		    const struct flow_share *part);
unsigned loop_share_pick(struct port_queue *base, const struct flow_share *part,
			 const struct flow_key *key5);
void loop_barrier(struct port *base);
void loop_addrs_gone(struct port *base, const struct inaddr *gone, unsigned n);
/* `sending` of a queue: has the host lost the address? */
bool loop_addr_is_gone(const struct loop_port *port, const struct inaddr *local);

#endif
