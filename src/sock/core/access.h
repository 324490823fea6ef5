/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which rings a socket is placed on: its keys, the threads that use it, and the requests
 * to move it that result.  The internal thread serves the requests (move/move.h).
 *
 * Role		sock_access_*(): the holder of the socket's home.  The others: as each
 *		says.
 */
#ifndef SOCK_CORE_ACCESS_H
#define SOCK_CORE_ACCESS_H

#include "ring/inbox.h"
#include "sock/core/inet_sock.h"

/* The socket was given, or changed, its allocation logic. */
void sock_access_init(struct inet_sock *so);

void sock_access_slow(struct inet_sock *so, bool tx);

/* holder of home: the calling thread receives, or sends. */
static inline void sock_access_rx(struct inet_sock *so)
{
	if (__builtin_expect(--so->rx_left <= 0, 0))
		sock_access_slow(so, false);
}

static inline void sock_access_tx(struct inet_sock *so)
{
	if (__builtin_expect(--so->tx_left <= 0, 0))
		sock_access_slow(so, true);
}

/* The keys of its rings, chosen when they are first needed, after the calling thread. */
uint64_t sock_rx_key(struct inet_sock *so, const struct inaddr *local);
void sock_tx_query(struct inet_sock *so, struct dst_query *query);
/* Control lock: of a connection. */
struct dst_query sock_query(struct inet_sock *so);

/* Moves to where its logic, which changed, wants it; from here on or soon. */
void sock_alloc_changed(struct inet_sock *so, bool rx, bool tx);

/* ---- requests to move ------------------------------------------------------------------ */

/* Posted by whoever uses the socket; lock-free. */
struct move_request {
	ck_stack_entry_t link; /* first */
	struct inet_sock *so;
	uint32_t gen;
	bool tx;
	bool asked; /* by setsockopt(), not by its accesses */
	uint64_t key;
};

/* any */
uint64_t move_key(const struct inet_sock *so, bool tx);
/* control lock */
void move_set_key(struct inet_sock *so, bool tx, uint64_t key);
/* Are both directions placed by the same rule? */
bool move_same_alloc(const struct inet_sock *so);
/* control lock, no ring held: there is no ring for it, it is looked at again much later. */
void move_put_off(struct inet_sock *so, bool tx);

/* internal thread: all there are, the oldest first, linked; the caller frees them. */
struct move_request *move_take_requests(void);
/* any; req is given away */
void move_post_request(struct move_request *req);
/* any */
bool move_no_requests(void);
/* In a forked child. */
void move_forget_requests(void);

#endif
