/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Placement of sockets on rings: the keys of a socket, the threads that use it, and requests
 * to move it when these do not match.  The internal thread serves the requests (move/move.h).
 *
 * Role		sock_access_*(): the holder of the socket's home.  The others: as each
 *		says.
 */
#ifndef SOCK_CORE_ACCESS_H
#define SOCK_CORE_ACCESS_H

#include "ring/inbox.h"
#include "sock/core/inet_sock.h"

/*
 * What a receive of a datagram socket looks at before it asks local_turn(): while *tail is `seen`, local
 * senders have written nothing.  The first member of struct local_udp; holder.
 */
struct local_quiet {
	const uint64_t *tail; /* maybe in shared memory: it is only compared */
	uint64_t seen;
	uint32_t others; /* receives that did not ask since the last datagram of a local sender, but in vain */
};

static inline bool local_is_quiet(const struct local_quiet *quiet)
{
	return __atomic_load_n(quiet->tail, __ATOMIC_RELAXED) == quiet->seen;
}

/* A ring that the socket may move to, for one direction: see sock_access_slow(). */
struct migration_candidate {
	uint64_t candidate; /* its key */
	nsec_t not_before;  /* no further request before: one was just made, or had no ring */
	uint8_t confirmed;  /* successive accesses with this key; 0: there is no candidate */
};

/* What few sockets need. */
struct sock_rare {
	struct migration_candidate candidates[2]; /* rx and tx */
	struct error_queue completions;
};

/* The allocation logic of the socket was set or changed: counts accesses from the start. */
void sock_access_init(struct inet_sock *so);

/* True: rx_left counted the receives until something is due; see sock_access_rx(). */
bool sock_access_slow(struct inet_sock *so, bool tx);

/*
 * holder of home: the calling thread receives (sock_access_tx(): sends).  True, of a datagram socket
 * only: another place than its queue is due now.  That is the twin, once in
 * VMA_RX_UDP_POLL_OS_RATIO receives, whatever these find; or, if local senders reach the socket,
 * local_turn() has to be asked.  sock_twin_is_due() tells which.
 */
static inline bool sock_access_rx(struct inet_sock *so)
{
	return __builtin_expect(--so->rx_left <= 0, 0) && sock_access_slow(so, false);
}

/* holder of home: is it the twin's turn by the count of receives?  Once, then it is not. */
bool sock_twin_is_due(struct inet_sock *so);

static inline void sock_access_tx(struct inet_sock *so)
{
	if (__builtin_expect(--so->tx_left <= 0, 0))
		(void)sock_access_slow(so, true);
}

/*
 * Control lock: the key of the ring to receive by, and the fields of a query that select the
 * ring to send by.  A key is chosen when it is first needed, by the allocation logic and the
 * calling thread.
 */
uint64_t sock_rx_key(struct inet_sock *so, const struct inaddr *local);
void sock_tx_query(struct inet_sock *so, struct dst_query *query);
/* Control lock: a query for the destination of a connection. */
struct dst_query sock_query(struct inet_sock *so);

/*
 * holder of home, control lock: the allocation logic of a direction changed.  Requests a move
 * if the new logic wants another ring.
 */
void sock_alloc_changed(struct inet_sock *so, bool rx, bool tx);

/* ---- requests to move ------------------------------------------------------------------ */

/* Posted by a thread that uses the socket; lock-free. */
struct move_request {
	ck_stack_entry_t link; /* first */
	struct inet_sock *so;
	uint32_t gen;
	bool tx;
	bool asked; /* requested by setsockopt(), not because of accesses */
	uint64_t key;
};

/* any: the key of one direction, or SOCK_NO_KEY. */
uint64_t move_key(const struct inet_sock *so, bool tx);
/* control lock */
void move_set_key(struct inet_sock *so, bool tx, uint64_t key);
/* Do both directions have the same allocation logic? */
bool move_same_alloc(const struct inet_sock *so);
/* control lock, no ring held: there was no ring to move to; no request for a second. */
void move_put_off(struct inet_sock *so, bool tx);

/* internal thread: takes all requests, linked, the oldest first.  The caller frees them. */
struct move_request *move_take_requests(void);
/* any: consumes req. */
void move_post_request(struct move_request *req);
/* any: is there no request? */
bool move_no_requests(void);
/* In a forked child: forgets the requests of the parent. */
void move_forget_requests(void);

#endif
