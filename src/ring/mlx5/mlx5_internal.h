/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of the mlx5 port: see mlx5_port.c. */
#ifndef RING_MLX5_MLX5_INTERNAL_H
#define RING_MLX5_MLX5_INTERNAL_H

#include <pthread.h>

#include "base/frame/frame_mem.h"
#include "base/list.h"
#include "ring/mlx5/mlx5_clock.h"
#include "ring/mlx5/mlx5_moderate.h"
#include "ring/mlx5/mlx5_verbs.h"
#include "ring/mlx5/mlx5_wqe.h"
#include "ring/mlx5/port_mlx5.h"

#define MLX5_TX_RESERVE 64u /* frames that receiving leaves to send */
#define MLX5_MTU_MAX 9216u
#define MLX5_FRAME_SIZE 2048u		       /* bytes of a frame's memory, at least */
#define MLX5_HEADROOM 64u		       /* of these, in front of the frame */
#define MLX5_BLOCK_DATA (MLX5_BLOCK / MLX5_DS) /* frames that a block refers to, at most */
#define MLX5_TAGS 65536u		       /* flow tags, 0 is none */
#define MLX5_RULE_LISTS 256u		       /* a power of two */

/* The RDMA device of an interface, as sysfs shows it. */
struct mlx5_name {
	char device[64]; /* "mlx5_0" */
	uint8_t port;	 /* of the device, from 1 */
};

struct mlx5_port {
	struct port base;
	/* set when opened */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct mlx5_name name;
	uint32_t max_wr, max_cqe;
	struct port_ops stamping; /* of queues whose frames get times of arrival */
	int event_fd;		  /* readable: a queue has failed */
	int claims;		  /* see mlx5_claim.c; -1: no file */
	pthread_mutex_t lock;
	struct mlx5_clock clock; /* says itself */
	/* lock */
	struct list queues, shares;
	struct list rules[MLX5_RULE_LISTS]; /* by the hash of their keys */
	uint64_t tags[MLX5_TAGS / 64];	    /* bits: in use */
	unsigned first_tag;		    /* no free one in words before this */
	uint16_t last_share;
	bool any_gone; /* rules are off, because the host has lost their addresses */
	bool fenced;   /* no rules and no queues are added any more */
};

/*
 * A flow that the card steers.  While it changes queues, or processes, there are two rules of one
 * match; the card takes the one of the better priority, so no frame is lost and none arrives twice.
 */
struct mlx5_rule {
	struct list link; /* of one of port->rules */
	struct flow_key key;
	struct mlx5_queue *queue;
	struct ibv_flow *flow; /* NULL: off, because the host has lost its address */
	uint32_t tag;	       /* of its frames; 0: none */
	unsigned wide;	       /* flows of other keys that have their frames by it */
	bool own;	       /* a flow has its key */
	unsigned nth;	       /* of the priorities of its kind */
	bool taken;	       /* from another process, which may still have a rule */
};

/* A 3-tuple with several receivers, all of one queue; see mlx5_share.c. */
struct mlx5_share {
	struct list link;
	struct flow_key key;
	struct mlx5_queue *queue;
	uint16_t at;
	struct reuseport_members members;
	uint8_t bucket[REUSEPORT_BUCKETS];
};

/* A request that completes: what the queue's counters were after it. */
struct mlx5_signal {
	uint32_t head; /* of the send queue */
	uint32_t sent; /* sent_head */
};

struct mlx5_queue {
	struct port_queue base;
	/* set when opened */
	struct mlx5_port *port;
	struct list link; /* of port->queues; the port's lock */
	struct ibv_td *domain;
	struct ibv_pd *pd; /* the parent domain of `domain`; NULL: there is none */
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *recv_cq, *send_cq;
	struct ibv_qp *qp;
	struct frame_mem mem;
	uint8_t *memory, *frames;  /* frames: the first one, behind its headroom */
	size_t stride, room, size; /* bytes: from frame to frame, of a frame, of all */
	struct pkt *pkts;	   /* pkts[i] is for the i-th frame */
	uint32_t lkey;
	uint32_t cqn;
	volatile uint64_t *arm_reg;
	unsigned rx_batch, tx_batch, inline_max;
	/* holder */
	uint32_t *free; /* stack of base.frames_free frames */
	struct mlx5_rq rq;
	struct mlx5_cq rcq, scq;
	struct mlx5_sq sq;
	uint32_t *posted;	     /* frame of each receive request */
	uint32_t *sent;		     /* frames that the card may read, in order */
	uint32_t sent_mask;	     /* MLX5_BLOCK_DATA for each block of the send queue, less 1 */
	struct mlx5_signal *signals; /* completions that are due, in order; one for each block */
	uint32_t sent_head, sent_tail;
	uint32_t signal_head, signal_tail;
	uint32_t signal_rung;  /* signal_head at the last flush; signal_tail at least */
	uint32_t until_signal; /* requests until one completes, that one included */
	uint32_t events;       /* of the channel, not acknowledged yet */
	uint32_t arm_sn;
	uint32_t held; /* frames in packets that are in use */
	struct mlx5_moderation moderation;
	nsec_t adapted,
		adapt_after;   /* when it was adapted last; how long this holds; 0: for ever */
	uint32_t adapted_tail; /* frames that had been received then */
	/* any, atomic: the holder sets it, service() reads */
	bool failed;
};

static inline struct mlx5_port *mlx5_port_of(struct port *port)
{
	return container_of(port, struct mlx5_port, base);
}

static inline struct mlx5_queue *mlx5_queue_of(struct port_queue *q)
{
	return container_of(q, struct mlx5_queue, base);
}

/* The key with one form for "any sender". */
static inline struct flow_key mlx5_spelled(const struct flow_key *key)
{
	struct flow_key one = *key;

	if (!one.remote_port)
		memset(&one.remote, 0, sizeof(one.remote));
	return one;
}

/* ---- mlx5_find.c ------------------------------------------------------------------------------ */

/*
 * The RDMA device that sysfs shows for the interface.  -ENODEV: no ConnectX card, why stays empty, and
 * name->device is a device of another kind, or ""; other -errno: it cannot be used, and why says so.
 */
int mlx5_find(const char *interface, struct mlx5_name *name, char why[PORT_WHY]);

/* Is there a device that libmlx5 could serve, whatever its interface? */
bool mlx5_find_any(void);

/* ---- mlx5_device.c ---------------------------------------------------------------------------- */

/* Opens the device and looks at its abilities.  0 or -errno and why. */
int mlx5_device_open(struct mlx5_port *port, char why[PORT_WHY]);
void mlx5_device_close(struct mlx5_port *port);

/* ---- mlx5_queue.c ----------------------------------------------------------------------------- */

int mlx5_open_queue(struct port *base, struct port_queue **out, char why[PORT_WHY]);
void mlx5_close_queue(struct port_queue *base);
/* holder: the queue has failed and does nothing any more; the internal thread looks. */
void mlx5_queue_fail(struct mlx5_queue *q, const char *what, unsigned syndrome);

/* ---- mlx5_burst.c ----------------------------------------------------------------------------- */

void mlx5_pool_put(struct pkt_pool *pool, struct pkt *pkt);
int mlx5_rx_burst(struct port_queue *base, struct pkt **pkts, int max);
/* The same, with PKT_ARRIVAL. */
int mlx5_rx_burst_stamped(struct port_queue *base, struct pkt **pkts, int max);
bool mlx5_arm(struct port_queue *base);
bool mlx5_idle(struct port_queue *base);
struct pkt *mlx5_tx_get(struct port_queue *base);
int mlx5_tx_put(struct port_queue *base, struct pkt *pkt);
int mlx5_tx_large(struct port_queue *base, const struct frame_large *large);
void mlx5_tx_flush(struct port_queue *base);
/* holder: gives free frames to the card. */
void mlx5_refill(struct mlx5_queue *q);
/* holder: frees what the card has sent. */
void mlx5_tx_reap(struct mlx5_queue *q);
/* holder, no sends after it: waits until the card has sent all, for 100 ms at most. */
void mlx5_tx_drain(struct mlx5_queue *q);

/* ---- mlx5_moderate.c -------------------------------------------------------------------------- */

/* What the parameters say, for a queue that is being opened. */
void mlx5_moderate_begin(struct mlx5_queue *q);
/* holder: as struct port_ops says; no adaptation any more. */
int mlx5_moderate(struct port_queue *base, uint16_t frames, uint16_t usec);
/* holder, with adapt_after, about to sleep: what suits the frames that have arrived. */
void mlx5_moderate_adapt(struct mlx5_queue *q);

/* ---- mlx5_flow.c ------------------------------------------------------------------------------ */

int mlx5_add_flow(struct port_queue *base, const struct flow_key *key);
int mlx5_add_wide(struct port_queue *base, const struct flow_key *key);
int mlx5_del_flow(struct port_queue *base, const struct flow_key *key);
int mlx5_move_flow(struct port_queue *base, const struct flow_key *key);
int mlx5_take_flow(struct port_queue *base, const struct flow_key *key);
bool mlx5_may_part(struct port_queue *base, const struct flow_key *key);
bool mlx5_part_flow(struct port_queue *base, const struct flow_key *key, bool over);
bool mlx5_flow_is_foreign(struct port *base, const struct flow_key *key);
void mlx5_addrs_gone(struct port *base, const struct inaddr *gone, unsigned n);
/* Removes all rules of the queue. */
void mlx5_flows_end(struct mlx5_queue *q);
/* lock: as add_flow and del_flow. */
int mlx5_rule_add(struct mlx5_queue *q, const struct flow_key *key);
int mlx5_rule_del(struct mlx5_queue *q, const struct flow_key *key);
struct mlx5_rule *mlx5_rule_find(struct mlx5_port *port, const struct flow_key *key);
int mlx5_rule_move(struct mlx5_queue *q, struct mlx5_rule *rule);

/* ---- mlx5_share.c ----------------------------------------------------------------------------- */

int mlx5_share_join(struct port_queue *base, const struct flow_key *key, struct flow_share *part);
void mlx5_share_leave(struct port_queue *base, const struct flow_key *key,
		      const struct flow_share *part);
int mlx5_share_move(struct port_queue *base, const struct flow_key *key,
		    const struct flow_share *part);
unsigned mlx5_share_pick(struct port_queue *base, const struct flow_share *part,
			 const struct flow_key *key5);
void mlx5_shares_end(struct mlx5_queue *q);

/* ---- mlx5_tag.c ------------------------------------------------------------------------------- */

/* lock: a tag for the frames that match key; 0: none. */
uint32_t mlx5_tag_get(struct mlx5_port *port, const struct flow_key *key);
/* lock: the rule with this key and tag has gone. */
void mlx5_tag_put(struct mlx5_port *port, const struct flow_key *key, uint32_t tag);

/* ---- mlx5_rule.c ------------------------------------------------------------------------------ */

/* The attribute of a rule, with room for its specifications. */
struct mlx5_match {
	_Alignas(8) struct ibv_flow_attr attr;
	uint8_t specs[sizeof(struct ibv_flow_spec_eth) + sizeof(struct ibv_flow_spec_ipv6) +
		      sizeof(struct ibv_flow_spec_tcp_udp) +
		      sizeof(struct ibv_flow_spec_action_tag)];
};

/* The key that stands for all groups of one Ethernet address, whatever the port. */
struct flow_key mlx5_group_key(const struct flow_key *key);
/* Priorities of a key, from 0, the best, to less than this. */
unsigned mlx5_priorities(const struct flow_key *key);
/* What the card matches for the key, and the tag that it gives such frames; 0: none. */
void mlx5_match_of(const struct mlx5_port *port, const struct flow_key *key, unsigned nth,
		   uint32_t tag, struct mlx5_match *match);

/* ---- mlx5_claim.c ----------------------------------------------------------------------------- */

/* Opens the file of claims; -1: no directory for it. */
int mlx5_claims_open(void);
/*
 * lock: the right to make a rule of the nth priority.  0, or -EEXIST: another process has it.  A
 * process may claim again what it has.
 */
int mlx5_claim(const struct mlx5_port *port, const struct flow_key *key, unsigned nth);
void mlx5_unclaim(const struct mlx5_port *port, const struct flow_key *key, unsigned nth);
/* Has another process that of the nth priority? */
bool mlx5_is_nth_claimed(const struct mlx5_port *port, const struct flow_key *key, unsigned nth);
/* Has another process a claim, of any priority? */
bool mlx5_is_claimed(const struct mlx5_port *port, const struct flow_key *key);
/* lock: this process has taken the flow, and made its rule; or it has it no more. */
void mlx5_claim_taken(const struct mlx5_port *port, const struct flow_key *key, bool taken);
/* Has another process taken it? */
bool mlx5_is_taken(const struct mlx5_port *port, const struct flow_key *key);

#endif
