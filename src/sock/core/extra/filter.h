/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receive callback of a socket (register_recv_callback() of vma_extra.h).
 *
 * What arrives for such a socket is unseen.  The thread that delivered it runs the callback as soon
 * as it holds no ring (ring_run_afterwards()), so the program may call anything from there.  What
 * the internal thread delivers waits for the next thread of the program that polls the ring.
 *
 * The thread takes some packets at a time (struct filter_batch), so that it holds the ring once for
 * all of them; the first ones, if the kind allows it, when it claims the filter.  Those that the
 * callback has not seen go back when it lets one pass, which recv() inside the next call must find;
 * when the callback was changed; or when the socket has ended.
 *
 * Role		struct filter: the holder of the socket's home ring, but for what the running
 *		thread has.  One thread at a time runs a filter; it has claimed it holding the
 *		ring, and gives it up holding the ring.
 * Lifetime	from the first registration until the socket ends, or until it has no callback
 *		any more.  A running filter is freed by the thread that runs it or by the one that
 *		ends the socket, whichever is later (->ends).
 * Ordering	unseen packets are seen one after another, in the order of arrival; those that
 *		the callback passes are queued in this order.
 * Progress	a callback that is left by longjmp(), or whose thread is cancelled, has returned
 *		VMA_PACKET_DROP (base/cleanup.h).  Callbacks of one thread do not nest: what arrives
 *		meanwhile is seen when the callback has returned.
 */
#ifndef SOCK_CORE_EXTRA_FILTER_H
#define SOCK_CORE_EXTRA_FILTER_H

#include <mellanox/vma_extra.h>

#include "sock/core/inet_sock.h"

struct held;
struct filter_kind;

#define FILTER_BATCH 16u /* packets at a time */

/* What a list of packets amounts to. */
struct filter_sum {
	uint32_t n, bytes, charge;
};

/* Packets that a thread has taken, and what the callback has said about them. */
struct filter_batch {
	/* those that are neither held nor passed, in their order; NULL: none */
	struct pkt *first, *last;
	/* the last one of them that the callback has seen: to free, with those before it; NULL: none */
	struct pkt *shown;
	struct pkt *passed;	   /* to queue; NULL: none */
	uint32_t held, held_bytes; /* packets that the program has now */
	struct filter_sum sum;	   /* the kind's: of all that were taken */
	/* as of the time when they were taken */
	vma_recv_callback_t callback; /* NULL: none were taken */
	void *context;
	struct sock_ref ref;
	/* what it is told */
	nsec_t stamp; /* of the last packet that it was told about; see PKT_APART */
	struct vma_info_t info;
	int fd; /* behind info.flow_tag: take() copies both at once */
	union filter_address {
		struct sockaddr_in in;
		struct sockaddr_in6 in6; /* of IPv6 traffic, by sin_family */
	} src, dst;
	/* As describe() or take() left them: the callback may write to src and dst. */
	union filter_address alike_src, alike_dst;
	int alike_ifindex;
	uint32_t alike_drops;
};

struct filter {
	/* set once */
	const struct filter_kind *kind;
	/* ref.sk: set once; ref.gen: holder, see filter_keep() */
	struct sock_ref ref;
	/* holder: what the callback is told; as the same two of struct filter_batch */
	uint32_t flow_tag;
	int fd;
	/* holder */
	vma_recv_callback_t callback; /* NULL: it was taken back while the filter runs */
	void *context;
	struct pkt *head, *tail; /* the kind's: unseen, if they are not elsewhere */
	struct filter_sum sum;	 /* the kind's: of that list */
	unsigned out;		 /* the kind's: packets that the running thread has taken */
	struct ring_work work;	 /* unseen packets wait for a thread of the program */
	nsec_t arrived;		 /* of filter_arrived(): CLOCK_REALTIME; 0: was not read */
	nsec_t arrived_at;	 /* ring->now at that time */
	bool running;		 /* a thread has claimed it */
	/* the thread that runs it */
	struct filter *next; /* of those that the thread has claimed */
	struct held *held;   /* for the next packet that is held; NULL: none so far */
	void *held_id;	     /* its name; NULL: as above */
	struct filter_batch batch;
	/* any, atomic */
	uint8_t changed; /* 1: another callback was registered, or the filter ends; holder to write */
	bool ends; /* the socket has none any more, or the thread that runs it has noticed it */
};

/* What the kinds of sockets do differently; a member of struct sock_kind. holder, unless it says more. */
struct filter_kind {
	/*
	 * May the socket have a callback now? 0, -ENOTCONN, SOCK_FETCH.  NULL: always; with it, the
	 * socket may have one before it has a connection.
	 */
	int (*check)(const struct inet_sock *so);
	/* Its filter, or NULL. */
	struct filter *(*get)(const struct inet_sock *so);
	/* It has this filter from now on, or none (NULL). False: no memory. */
	bool (*set)(struct inet_sock *so, struct filter *f);
	/* Are there packets that the callback has to see? */
	bool (*waits)(const struct filter *f);
	/*
	 * They are there: takes the oldest, FILTER_BATCH at most, into an empty batch, and fills in
	 * b->info for them.  The first one has PKT_APART; one that has not is like the one before, but
	 * for what it contains.
	 */
	void (*take)(struct filter *f, struct filter_batch *b);
	/* It may be called where filter_wake() is. */
	bool takes_at_once;
	/*
	 * Does what the callback said, and empties the batch: what it has not seen is the oldest
	 * again. If f is not the socket's filter any more, it is queued, or freed.
	 */
	void (*obey)(struct filter *f, struct filter_batch *b, struct ring *ring);
	/* Queues, or frees, what is unseen: the filter ends. */
	void (*pass)(struct filter *f);
	void (*discard)(struct filter *f);
	/*
	 * No ring held: stores the addresses of pkt, which has PKT_APART, in b; and all that packets
	 * without it behind it have in common with it in b->alike_*.
	 */
	void (*describe)(struct filter_batch *b, const struct pkt *pkt);
	/* any: what pkt is charged with while the program holds it. */
	uint32_t (*charge)(const struct pkt *pkt);
};

/* filter_kind.describe of connections: take() has stored the addresses in b->alike_*. */
void filter_describe_alike(struct filter_batch *b, const struct pkt *pkt);

/*
 * app, no ring held: register_recv_callback(). 0; -ENOMEM; -ENOTCONN: the connection has ended; as
 * control_lock(); as sock_hold_cold().
 */
int filter_register(struct sock_ref ref, int fd, vma_recv_callback_t callback, void *context);
/*
 * Control lock, holder: the socket has begun a connection, which has not received anything.  It gets the
 * callback that was registered before it, if there is one. 0; -ENOMEM.
 */
int filter_connect(struct inet_sock *so);

/*
 * For filter_early.c.  holder: the socket, which has none, has this filter, whose memory is all zeros or
 * missing (NULL), and this callback. 0, and the filter is the socket's; -ENOMEM; as of filter_kind.check.
 */
int filter_begin(struct inet_sock *so, struct filter *f, int fd, vma_recv_callback_t callback,
		 void *context);
/* app, no ring held: as filter_register(), but a connection must be there; early: it is yet to come. */
int filter_try_register(struct sock_ref ref, int fd, vma_recv_callback_t callback, void *context,
			bool *early);
/* In a forked child. */
void filter_early_fork_child(void);

/* holder: there are unseen packets, and no thread runs the filter: one of the program is going to. */
void filter_wake(struct filter *f, struct ring *ring);
/* holder: there may be unseen packets. */
static inline void filter_look(struct filter *f, struct ring *ring)
{
	if (!f->running && f->kind->waits(f))
		filter_wake(f, ring);
}
/* holder: no callback any more; what it has not seen is queued, or freed. f may be NULL. */
void filter_pass(struct filter *f);
void filter_end(struct filter *f);
/*
 * holder: the program has closed the socket, which lives on under the generation that it has now.  No
 * callback any more; what it has not seen is queued, for the other process that has the socket.
 */
void filter_keep(struct inet_sock *so);
/* holder: SO_VMA_FLOW_TAG was set: a callback is told this one from now on. */
void filter_set_flow_tag(struct inet_sock *so, uint32_t tag);
/* holder of the old home: the socket leaves it, with its unseen packets. f may be NULL. */
void filter_leave(struct filter *f, struct ring *ring);
/*
 * In a forked child, for the process: its sockets have no callbacks.  After a fork() in a callback, that
 * returns, and then the call that it runs in, as if a signal had interrupted it.
 */
void filters_fork_child(void);

/* any: what the receive callback of a connection has to see. */
static inline enum tcp_filter sock_filter_state(const struct inet_sock *so)
{
	if (so->inet == INET_LOCAL)
		return (enum tcp_filter)__atomic_load_n(&so->shm.filter_state, __ATOMIC_RELAXED);
	return so->inet == INET_TCP
		       ? (enum tcp_filter)__atomic_load_n(&so->tcp.filter, __ATOMIC_RELAXED)
		       : TCP_FILTER_NONE;
}

#define FILTER_ARRIVED_FOR NSEC_PER_MSEC /* the wall clock is believed to go as ring->now */

/*
 * For kinds, holder: when the packet arrived, CLOCK_REALTIME.  Without a time in its headroom: when the
 * ring was polled.  The wall clock is read once in a millisecond: who sets it is heard that late.
 */
static inline nsec_t filter_arrived(struct filter *f, const struct ring *ring,
				    const struct pkt *pkt)
{
	if (pkt->flags & PKT_ARRIVAL)
		return pkt_arrival(pkt)->real;
	/* Of another ring it may be earlier than that of the reading: a huge number. */
	if (__builtin_expect((uint64_t)(ring->now - f->arrived_at) >= FILTER_ARRIVED_FOR ||
				     !f->arrived,
			     0)) {
		f->arrived_at = ring->now;
		f->arrived = clock_real();
	}
	return f->arrived + (ring->now - f->arrived_at);
}

/* Stores an IPv4 address, whose parts are in network byte order. */
static inline void filter_set_address(struct sockaddr_in *to, const void *addr, const void *port)
{
	to->sin_family = AF_INET;
	__builtin_memcpy(&to->sin_port, port, sizeof(to->sin_port));
	__builtin_memcpy(&to->sin_addr, addr, sizeof(to->sin_addr));
	__builtin_memset(to->sin_zero, 0, sizeof(to->sin_zero));
}

/* For kinds: stores an endpoint of either family. */
static inline void filter_set_endpoint(union filter_address *to, const struct endpoint *ep)
{
	socklen_t len = sizeof(to->in6);

	if (addr_is_v4(&ep->addr))
		filter_set_address(&to->in, &ep->addr.w[3], &ep->port);
	else
		endpoint_to_sockaddr(ep, AF_INET6, (struct sockaddr *)&to->in6, &len);
}

/* The next packet of a batch that the callback has to see; NULL: none. */
static inline struct pkt *filter_unseen(const struct filter_batch *b)
{
	return b->shown ? b->shown->next : b->first;
}

/* For kinds, in obey(): takes those out that were dropped, as a list; the rest is unseen. */
static inline struct pkt *filter_dropped(struct filter_batch *b)
{
	struct pkt *dropped = b->first;

	if (!b->shown)
		return NULL;
	b->first = b->shown->next;
	b->shown->next = NULL;
	b->shown = NULL;
	return dropped;
}

/* For kinds: the first packet of a list, which is removed; NULL: it is empty. */
static inline struct pkt *filter_pop(struct pkt **list)
{
	struct pkt *pkt = *list;

	if (pkt)
		*list = pkt->next;
	return pkt;
}

#endif
