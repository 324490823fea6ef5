/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inside of a team: see port_team.h.  port_team.c has the ports, port_team_queue.c the queues
 * and their frames, port_team_flow.c the flows, port_team_change.c ports that come and go.
 */
#ifndef RING_TEAM_TEAM_INTERNAL_H
#define RING_TEAM_TEAM_INTERNAL_H

#include <pthread.h>

#include "base/list.h"
#include "ring/flow.h"
#include "ring/ring.h"
#include "ring/team/port_team.h"

struct team_port {
	struct port base; /* first */
	/* set when opened */
	const struct team_rules *rules;
	void *arg;
	pthread_mutex_t lock;
	/*
	 * Written by the internal thread with the control lock and this lock; with any one of
	 * the three to read.  NULL: the slot is free.
	 */
	struct port *ports[TEAM_PORTS_MAX];
	uint32_t leaving; /* bit i: port i was removed, its queues may be open */
	/* lock */
	struct flow_table flows; /* of struct team_flow: which queue has it */
	struct list shares;	 /* of struct team_share */
	/* control lock; and lock to write */
	struct list queues; /* of struct team_queue */
	/* atomic: the internal thread writes, holders read */
	uint64_t senders; /* the number of senders, then their slots, four bits each */
	uint32_t hears;	  /* bit i: slot i */
};

struct team_queue {
	struct port_queue base; /* first */
	/* set when opened */
	struct team_port *team;
	int epoll_fd; /* of the descriptors of all parts */
	/* of team->queues */
	struct list link;
	/* holder, with the lock to write; either to read */
	struct port_queue *parts[TEAM_PORTS_MAX]; /* by slot; NULL: no port, or it is lost */
	/* holder */
	struct port_queue *lost[TEAM_PORTS_MAX]; /* until their packets are back */
	unsigned n;				 /* slots from here on have no parts */
	unsigned next;				 /* the part that is asked first for frames */
	unsigned guess;				 /* the part that sent last */
	uint32_t heard;				 /* of team->hears, as this queue saw it last */
	uint32_t emptying; /* bit i: part i is not heard any more, but what it had is delivered */
	unsigned rest[TEAM_PORTS_MAX]; /* of part i: most frames that it may have had */
	bool stamped;
};

_Static_assert(TEAM_PORTS_MAX <= 8, "senders have four bits each, behind their number");

static inline struct team_port *team_of(struct port *port)
{
	return (struct team_port *)port;
}

static inline struct team_queue *team_queue_of(struct port_queue *q)
{
	return (struct team_queue *)q;
}

/* The ring of the queue; NULL: it was not opened yet. */
static inline struct ring *team_ring_of(const struct team_queue *q)
{
	return q->base.owner ? container_of(q->base.owner, struct ring, hold) : NULL;
}

/* ---- port_team_queue.c: operations of struct port_ops, and parts (holder) -------------------- */

int team_open_queue(struct port *port, struct port_queue **out, char why[PORT_WHY]);
void team_close_queue(struct port_queue *base);
int team_rx_burst(struct port_queue *base, struct pkt **pkts, int max);
struct pkt *team_tx_get(struct port_queue *base);
int team_tx_put(struct port_queue *base, struct pkt *pkt);
void team_tx_flush(struct port_queue *base);
bool team_arm(struct port_queue *base);
int team_fds(struct port_queue *base, int fds[PORT_FDS_MAX]);
bool team_idle(struct port_queue *base);

/* The part belongs to the queue from now on; it leaves it, and waits in lost[] for its packets. */
void team_attach_part(struct team_queue *q, unsigned slot, struct port_queue *part);
void team_detach_part(struct team_queue *q, unsigned slot);

/* ---- port_team_flow.c -------------------------------------------------------------------------- */

/* Before the queue is closed: no port steers to it any more; forgets its flows and shares. */
void team_forget_flows(struct team_queue *q);

/* Steers the flows of the queue to a part that it is about to get.  -errno: not all. */
int team_steer_part(struct team_queue *q, struct port_queue *part);
/* Removes them from the part. */
void team_unsteer_part(struct team_queue *q, unsigned slot);
/*
 * holding no ring: the members of shared flows join at the port of the slot, the oldest first.
 * -errno: not all.
 */
int team_join_slot(struct team_port *team, unsigned slot);

/* Operations of struct port_ops. */
int team_add_flow(struct port_queue *base, const struct flow_key *key);
int team_del_flow(struct port_queue *base, const struct flow_key *key);
void team_kernel_done(struct port_queue *base, const struct flow_key *key);
int team_move_flow(struct port_queue *base, const struct flow_key *key);
bool team_part_flow(struct port_queue *base, const struct flow_key *key, bool over);
int team_take_flow(struct port_queue *base, const struct flow_key *key);
int team_share_join(struct port_queue *base, const struct flow_key *key, struct flow_share *share);
void team_share_leave(struct port_queue *base, const struct flow_key *key,
		      const struct flow_share *share);
int team_share_move(struct port_queue *base, const struct flow_key *key,
		    const struct flow_share *share);
unsigned team_share_pick(struct port_queue *base, const struct flow_share *share,
			 const struct flow_key *key);

#endif
