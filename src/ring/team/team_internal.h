/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of a team: see port_team.h. */
#ifndef RING_TEAM_TEAM_INTERNAL_H
#define RING_TEAM_TEAM_INTERNAL_H

#include <pthread.h>

#include "base/list.h"
#include "ring/flow.h"
#include "ring/team/port_team.h"

struct team_port {
	struct port base; /* first */
	/* set when opened */
	struct port *ports[TEAM_PORTS_MAX];
	unsigned n;
	pthread_mutex_t lock;
	/* lock */
	struct flow_table flows; /* of struct team_flow: which queue has it */
	struct list shares;	 /* of struct team_share */
};

struct team_queue {
	struct port_queue base; /* first */
	/* set when opened */
	struct team_port *team;
	int epoll_fd; /* of the descriptors of all parts */
	/* holder, with the lock to write; either to read */
	struct port_queue *parts[TEAM_PORTS_MAX]; /* by port; NULL: its port is lost */
	/* holder */
	struct port_queue *lost[TEAM_PORTS_MAX]; /* until their packets are back */
	unsigned next;				 /* the part that is asked first for frames */
	unsigned guess;				 /* the part that sent last */
};

static inline struct team_port *team_of(struct port *port)
{
	return (struct team_port *)port;
}

static inline struct team_queue *team_queue_of(struct port_queue *q)
{
	return (struct team_queue *)q;
}

/* Before the queue is closed: no port steers to it any more; forgets its flows and shares. */
void team_forget_flows(struct team_queue *q);

/* Operations of struct port_ops. */
int team_add_flow(struct port_queue *base, const struct flow_key *key);
int team_del_flow(struct port_queue *base, const struct flow_key *key);
int team_move_flow(struct port_queue *base, const struct flow_key *key);
int team_take_flow(struct port_queue *base, const struct flow_key *key);
int team_share_join(struct port_queue *base, const struct flow_key *key, struct flow_share *share);
void team_share_leave(struct port_queue *base, const struct flow_key *key,
		      const struct flow_share *share);
int team_share_move(struct port_queue *base, const struct flow_key *key,
		    const struct flow_share *share);
unsigned team_share_pick(struct port_queue *base, const struct flow_share *share,
			 const struct flow_key *key);

#endif
