/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socketxtreme (vma_extra.h): packets and events of all sockets of a ring, for the thread that polls it.
 *
 * Each socket has a watch of its own kind (struct xtreme).  An event links it to the list of the ring
 * where the socket lives; a poll takes packets out of the sockets of this list, then reports other
 * events.  What a poll itself receives for a datagram socket does not go through the socket's queue.
 * The calls of the socket find what no poll has taken.
 *
 * Role		as each function says.  "holder": of the socket's home.
 * Lifetime	a watch ends with its socket, with the references to it, or in a forked child.  The
 *		queue of a ring is made at need and stays while the process lives.
 * Ordering	packets of one socket are reported in their order, before its end.  A socket that
 *		moves to another ring is in the list of one of them at a time.
 * Progress	a poll does not wait for another thread that polls, but for the holder of the ring.
 */
#ifndef SOCK_CORE_EXTRA_XTREME_H
#define SOCK_CORE_EXTRA_XTREME_H

#include "base/param.h"
#include "sock/core/extra/buff.h"
#include "sock/core/extra/sock_extra.h"
#include "sock/core/ready.h"

#define XTREME_BATCH 16u /* completions that a poll makes while it holds the ring */

struct xtreme_listener {
	struct sock_ref ref;
	int fd;
};

struct xtreme_batch {
	unsigned n, max; /* completions; max: XTREME_BATCH at most */
	/* The program's memory, which was looked at; it stays mapped (vma_extra.h). */
	struct vma_completion_t *completions;
	struct buff_store *store;
	unsigned n_listeners; /* connections wait there for xtreme_accept() or accept(2) */
	struct xtreme_listener listeners[XTREME_BATCH];
};

/* What a poll hands out; of a ring. */
struct xtreme_queue {
	/* holder of the ring */
	struct list ready;	    /* of struct xtreme */
	struct xtreme_batch *batch; /* of the poll under way, which receives; NULL: none */
	struct buff_store store;
};

/*
 * What all completions with a packet of one socket have.  In pairs, which are copied at once: the members
 * of each are neighbours there, too.
 */
struct xtreme_name {
	uint64_t events;    /* VMA_SOCKETXTREME_PACKET */
	uint64_t user_data; /* SO_VMA_USER_DATA, or the descriptor */
	int listen_fd;	    /* 0 */
	uint32_t flow_tag;  /* SO_VMA_FLOW_TAG; 0: none */
};

/* The part of a socket. */
struct xtreme {
	struct watch watch; /* first; without a waiter */
	/* holder */
	struct list ready; /* of the queue of home */
	uint32_t pending;  /* EPOLL*: happened, and are not reported yet */
	int fd;		   /* that the program has, for listen_fd */
	struct xtreme_name name;
};

extern struct xtreme_queue *xtreme_queues[SOCK_RING_NUMBERS]; /* any, atomic; the holder sets */

/* any: the queue of a ring, by its number; NULL: none was needed so far. */
static inline struct xtreme_queue *xtreme_queue_of(unsigned ring)
{
	/* acquire: pairs with make_queue() */
	return ring < SOCK_RING_NUMBERS ? __atomic_load_n(&xtreme_queues[ring], __ATOMIC_ACQUIRE)
					: NULL;
}

/*
 * app, no ring held: the socket, whose descriptor is fd, takes part.  Does nothing if it does so
 * already.  0, -ENOMEM, or as sock_hold_cold().
 */
int xtreme_begin(struct sock_ref ref, int fd);
/* app, no ring held: what its completions have as user_data.  Errors as above. */
int xtreme_set_user_data(struct sock_ref ref, uint64_t data);
int xtreme_get_user_data(struct sock_ref ref, uint64_t *data);
/* holder: SO_VMA_FLOW_TAG was set. */
void xtreme_set_flow_tag(struct inet_sock *so, uint32_t tag);

/*
 * app, no ring held: takes up to b->max packets and events of a ring, to b->completions (the caller
 * sets both).  Reports nothing in a handler that interrupted a holder.
 */
void xtreme_poll(unsigned ring, struct xtreme_batch *b);
/* app, no ring held: the next poll looks at the socket once more. */
void xtreme_again(struct sock_ref ref);

/* ---- for the rest of sock ----------------------------------------------------------------- */

/* holder of the old home: the socket is about to leave. */
void xtreme_leave(struct inet_sock *so);
/* any: the same socket is on its way to ring, its home now; its arrival is posted. */
void xtreme_follow(struct inet_sock *so, struct ring *ring);
/* holder of the new home: the socket has arrived. */
void xtreme_arrive(struct inet_sock *so, struct ring *ring);
/* internal thread, now and then: buffers that were returned go back although nobody polls. */
void xtreme_run(void);
/* In a forked child, for the process; for a socket. */
void xtreme_fork_child(void);
void xtreme_fork_child_sock(struct inet_sock *so);

/* Is there anything to tell these functions? */
static inline bool xtreme_is_on(void)
{
	return __builtin_expect(params.socketxtreme, 0);
}

/* ---- for kinds (holder) ------------------------------------------------------------------ */

/* The batch that is open on the ring: a poll receives; NULL: none. */
static inline struct xtreme_batch *xtreme_batch_of(const struct ring *ring)
{
	const struct xtreme_queue *q = xtreme_queue_of(ring->id);

	return q ? q->batch : NULL;
}

static inline bool xtreme_has_room(const struct xtreme_batch *b)
{
	return b->n < b->max;
}

/* Fills in a completion with a packet of so many bytes, which buff has, but for the sender. */
static inline void xtreme_fill(struct vma_completion_t *c, const struct xtreme_name *name,
			       uint16_t len, struct buff *buff)
{
	c->packet.num_bufs = 1;
	c->packet.total_len = len;
	c->packet.buff_lst = &buff->pub;
	c->packet.hw_timestamp = (struct timespec){0};
	__builtin_memcpy(&c->events, &name->events, 2 * sizeof(uint64_t));
	__builtin_memcpy(&c->listen_fd, &name->listen_fd, 2 * sizeof(uint32_t));
}

/*
 * Adds a completion with a packet, whose sender is to be set by the caller.  NULL: no buffer; there
 * must be room.
 */
static inline struct vma_completion_t *xtreme_add(struct xtreme_batch *b, struct sock_ref ref,
						  const struct xtreme_name *name, struct pkt *pkt,
						  uint32_t charge)
{
	struct buff *buff = buff_new(b->store, ref, pkt, charge);
	struct vma_completion_t *c = &b->completions[b->n];

	if (__builtin_expect(!buff, 0))
		return NULL;
	b->n++;
	xtreme_fill(c, name, pkt->len, buff);
	return c;
}

/* The sender is an address of IPv4, or none that the completion can have. */
void xtreme_set_sender(struct vma_completion_t *c, const struct endpoint *from);
/* Of a connection. */
static inline void xtreme_set_peer(struct vma_completion_t *c, const struct inet_sock *so)
{
	xtreme_set_sender(c, &so->remote);
}

#endif
