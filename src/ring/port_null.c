/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/ports.h"

#include <errno.h>
#include <stdio.h>

static int refuse_flow(struct port_queue *q, const struct flow_key *key)
{
	return -EOPNOTSUPP;
}

static int refuse_share(struct port_queue *q, const struct flow_key *key, struct flow_share *share)
{
	return -EOPNOTSUPP;
}

static int refuse_share_move(struct port_queue *q, const struct flow_key *key,
			     const struct flow_share *share)
{
	return -EOPNOTSUPP;
}

static void ignore_share(struct port_queue *q, const struct flow_key *key,
			 const struct flow_share *share)
{
}

static unsigned pick_any(struct port_queue *q, const struct flow_share *share,
			 const struct flow_key *key)
{
	return share->member;
}

static void ignore_queue(struct port_queue *q)
{
}

static void ignore_addrs(struct port *port, const struct inaddr *gone, unsigned n)
{
}

static void no_barrier(struct port *port)
{
}

static bool always_idle(struct port_queue *q)
{
	return true;
}

static int no_service(struct port *port, int fds[PORT_FDS_MAX])
{
	return 0;
}

static bool always_settled(struct port *port)
{
	return true;
}

static int no_fds(struct port_queue *q, int fds[PORT_FDS_MAX])
{
	return 0;
}

static bool nobody_has_it(struct port *port, const struct flow_key *key)
{
	return false;
}

static void ignore_key(struct port_queue *q, const struct flow_key *key)
{
}

bool port_may_part(struct port_queue *q, const struct flow_key *key)
{
	return true;
}

bool port_parts_at_once(struct port_queue *q, const struct flow_key *key, bool over)
{
	return true;
}

int port_moderates_nothing(struct port_queue *q, uint16_t frames, uint16_t usec)
{
	(void)q;
	(void)frames;
	(void)usec;
	return -EOPNOTSUPP;
}

static void ignore_port(struct port *port)
{
}

static int grant_nothing(struct port *port, const struct flow_key *key)
{
	return -EOPNOTSUPP;
}

static int refuse_queue(struct port *port, struct port_queue **q, char why[PORT_WHY])
{
	snprintf(why, PORT_WHY, "This interface cannot be accelerated.\n");
	return -EOPNOTSUPP;
}

static int no_frames(struct port_queue *q, struct pkt **pkts, int max)
{
	return 0;
}

static struct pkt *no_frame(struct port_queue *q)
{
	return NULL;
}

static void ignore_end(struct port_queue *q, bool held)
{
	(void)q;
	(void)held;
}

static int drop_frame(struct port_queue *q, struct pkt *pkt)
{
	pkt_free(pkt);
	return -ENOBUFS;
}

static int refuse_large(struct port_queue *q, const struct frame_large *large)
{
	return -EOPNOTSUPP;
}

/* Positional: the compiler reports a member of struct port_ops that is missing here. */
const struct port_ops port_null_ops = {
	refuse_flow,		/* add_flow */
	refuse_flow,		/* add_wide */
	ignore_addrs,		/* addrs_gone */
	always_idle,		/* arm */
	ignore_end,		/* at_exit */
	no_barrier,		/* barrier */
	ignore_queue,		/* close_queue */
	refuse_flow,		/* del_flow */
	no_fds,			/* fds */
	ignore_port,		/* fence */
	nobody_has_it,		/* flow_is_foreign */
	ignore_port,		/* follow */
	ignore_port,		/* free_port */
	grant_nothing,		/* grant */
	always_idle,		/* idle */
	NULL,			/* is_needed */
	ignore_key,		/* kernel_done */
	port_may_part,		/* may_part */
	port_moderates_nothing, /* moderate */
	refuse_flow,		/* move_flow */
	refuse_queue,		/* open_queue */
	port_parts_at_once,	/* part_flow */
	no_frames,		/* rx_burst */
	no_service,		/* service */
	always_settled,		/* settle */
	ignore_queue,		/* stamp */
	refuse_share,		/* reuseport_join */
	ignore_share,		/* reuseport_leave */
	refuse_share_move,	/* reuseport_move */
	pick_any,		/* reuseport_pick */
	refuse_flow,		/* take_flow */
	ignore_queue,		/* tx_flush */
	no_frame,		/* tx_get */
	refuse_large,		/* tx_large */
	drop_frame,		/* tx_put */
};

static bool take_no_link(const struct link *link, char why[PORT_WHY])
{
	snprintf(why, PORT_WHY, "no port serves this interface");
	return false;
}

static int open_no_port(int ifindex, struct port **port, char why[PORT_WHY])
{
	snprintf(why, PORT_WHY, "No port serves interface number %d.\n", ifindex);
	return -EOPNOTSUPP;
}

/* Positional, as above. */
const struct port_kind port_null_kind = {
	"null",		   /* name */
	0,		   /* own_ifindex */
	take_no_link,	   /* takes */
	open_no_port,	   /* open */
	port_kind_ignores, /* thread_begins */
	port_kind_ignores, /* thread_ends */
	port_kind_ignores, /* forget */
};
