/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a socket: what it is now, and what it may become.
 *
 * Role		pure: the states, the table of legal edges, their names.  The variable is
 *		inet_sock.life; sock_life_set() writes it.
 * Ordering	none: a thread that reads a state and needs what was written before it holds the
 *		ring, or has the control lock.
 *
 * The progress of a connection's handshake, and its end, are states of the TCP engine and not
 * of this table: sock_is_connecting(), sock_has_ended().
 */
#ifndef SOCK_CORE_SOCK_LIFE_H
#define SOCK_CORE_SOCK_LIFE_H

#include <stdbool.h>
#include <stdint.h>

/* The order matters: predicates compare states. */
#define SOCK_LIFE_LIST(X)                                                                 \
	X(FREE)		 /* memory for a socket */                                        \
	X(CLOSED)	 /* closed, and about to be freed */                              \
	X(OPEN)		 /* no listener, no connection, no datagram socket with a port */ \
	X(RECEIVING)	 /* a datagram socket with a port */                              \
	X(LISTENING)	 /* a listener */                                                 \
	X(LINGERING)	 /* the kernel serves it; some datagrams are still unread here */ \
	X(EXPORTED)	 /* another process receives, or owns the connection */           \
	X(KEPT_RECEIVER) /* closed here; receives until another process does */           \
	X(KEPT_EXPORTED) /* closed here; other processes own it or receive */             \
	X(LOCAL)	 /* a connection through shared memory, accepted or not */        \
	/* from here on: a connection of the TCP engine, in this process */               \
	X(HANDSHAKE)  /* a listener's connection before the end of its handshake */       \
	X(QUEUED)     /* a listener's connection that is not accepted yet */              \
	X(CONNECTING) /* connect() has not reported the end of the handshake yet */       \
	X(CONNECTED)  /* connect() or accept() has reported the connection */             \
	X(KEPT)	      /* closed here, maybe a local one; other processes hold it */       \
	X(ORPHAN)     /* closed in all processes; lives on until the connection ends */

enum sock_life {
#define X(name) LIFE_##name,
	SOCK_LIFE_LIST(X)
#undef X
		LIFE_COUNT
} __attribute__((packed)); /* a byte of each socket */

#define LIFE(name) (1u << LIFE_##name)

/* For each state: an OR of LIFE() of the states that may follow. */
extern const uint16_t sock_life_edges[LIFE_COUNT];

static inline bool sock_life_may(enum sock_life from, enum sock_life next)
{
	return sock_life_edges[from] & 1u << next;
}

const char *sock_life_name(enum sock_life life);

/* An edge that the table lacks: logs the first one; with assertions the process ends. */
void sock_life_refused(enum sock_life from, enum sock_life next) __attribute__((cold));

struct inet_sock;

/*
 * Called before each change of state, by the thread that makes it; NULL: none.  Set by the
 * flight recorder (stats/sock_record.h), and by tests, before another thread changes a state.
 */
extern void (*sock_life_trace)(const struct inet_sock *so, enum sock_life from,
			       enum sock_life next);

#endif
