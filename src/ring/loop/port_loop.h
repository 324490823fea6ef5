/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the loop-back port share: see port_loop.c. */
#ifndef RING_LOOP_PORT_LOOP_H
#define RING_LOOP_PORT_LOOP_H

#include <ck_spinlock.h>
#include <pthread.h>
#include <string.h>

#include "base/list.h"
#include "ring/port.h"

#define LOOP_GONE 64 /* addresses that the host has lost */

struct loop_port {
	struct port base;
	/* set when opened */
	size_t stride; /* of wires and of frames */
	pthread_mutex_t lock;
	struct list queues; /* lock */
	/* `sending` of a queue to read, freeze() to write */
	struct list flows;
	struct list shares;
	uint16_t last_share;	       /* freeze() */
	struct inaddr gone[LOOP_GONE]; /* likewise */
	unsigned n_gone;
};

struct loop_flow {
	struct list link;
	struct flow_key key;
	struct loop_queue *queue;
};

/* A flow with several receivers. */
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
	struct list link; /* of port->queues; lock of the port */
	uint8_t *wires;
	uint8_t *frames;
	struct pkt *pkts;
	uint32_t *free;
	int event_fd;
	/* holder */
	struct pkt *put, **put_end; /* since the last flush */
	uint32_t quiet;		    /* bursts without a frame */
	nsec_t polled_at;	    /* the last burst, while signalled */
	ck_spinlock_fas_t sending;  /* the holder flushes, with the flows as they are */
	struct loop_flow *recent;   /* sending: where the last frame went; may be NULL */
	/* senders, under `arriving` */
	_Alignas(64) ck_spinlock_fas_t arriving;
	uint32_t head;
	uint32_t tail_seen; /* tail, some time ago */
	/* holder */
	_Alignas(64) uint32_t tail; /* atomic: read by senders */
	/* any, atomic */
	_Alignas(64) bool signalled; /* event_fd is readable, or about to be */
};

static inline struct loop_queue *loop_queue_of(struct port_queue *q)
{
	return container_of(q, struct loop_queue, base);
}

/* One spelling of "from anybody". */
static inline struct flow_key loop_spelled(const struct flow_key *key)
{
	struct flow_key one = *key;

	if (!one.remote_port)
		memset(&one.remote, 0, sizeof(one.remote));
	return one;
}

/* A holder is done soon, unless it lost its processor. */
static inline void loop_lock(ck_spinlock_fas_t *spin)
{
	if (__builtin_expect(!ck_spinlock_fas_trylock(spin), 0))
		hold_lock_slow(spin, HOLD_SPINS_SHARED);
}

/* ---- port_loop_flow.c ----------------------------------------------------------------------- */

/* `sending` of a queue: who gets what has exactly this key; NULL: nobody. */
struct loop_flow *loop_find_flow(struct loop_port *port, const struct flow_key *key);
struct loop_share *loop_find_share(struct loop_port *port, const struct flow_key *key);
/* The member of a share that gets what comes from there. */
unsigned loop_member_of(const struct loop_share *share, const struct flow_key *key5);

/* holder: removes the flows of q that have this key, all of them for NULL; how many. */
int loop_remove_flows(struct loop_queue *q, const struct flow_key *key);
/* The queue closes. */
void loop_leave_shares(struct loop_queue *q);

/* Of struct port_ops. */
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
/* `sending` of a queue */
bool loop_addr_is_gone(const struct loop_port *port, const struct inaddr *local);

#endif
