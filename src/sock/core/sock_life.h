/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a socket: what it is now, and what it may become.
 *
 * Role		pure: the states, the table of legal edges, their names.  The variable is
 *		struct inet_sock's, see sock_life_set() there.
 * Ordering	a state orders nothing: who needs to see what was written before it holds the
 *		ring, or has the control lock.
 *
 * How far the handshake of a connection has come, and whether it has ended, is the TCP
 * engine's state and no state here: sock_is_connecting(), sock_has_ended().
 */
#ifndef SOCK_CORE_SOCK_LIFE_H
#define SOCK_CORE_SOCK_LIFE_H

#include <stdbool.h>
#include <stdint.h>

/* name, sentence.  In this order: predicates compare. */
#define SOCK_LIFE_LIST(X)                                                                  \
	X(FREE, "memory for a socket")                                                     \
	X(CLOSED, "nobody has it any more")                                                \
	X(OPEN, "no listener, no connection, no datagrams")                                \
	X(RECEIVING, "a datagram socket with a port")                                      \
	X(LISTENING, "a listener")                                                         \
	X(LINGERING, "left to the kernel, but for datagrams that are not read yet")        \
	X(EXPORTED, "another process receives, or owns the connection")                    \
	X(KEPT_RECEIVER, "closed here, and receives until another process does")           \
	X(KEPT_EXPORTED, "closed here, and another process owns the connection")           \
	/* from here on it is a connection, and its state is in this process */            \
	X(HANDSHAKE, "a connection that a listener is about to have")                      \
	X(QUEUED, "a connection that nobody has accepted yet")                             \
	X(CONNECTING, "a connection whose connect() has not said how the handshake ended") \
	X(CONNECTED, "a connection that connect() or accept() said is there")              \
	X(KEPT, "a connection that was closed here, and that other processes hold")        \
	X(ORPHAN, "a connection that nobody holds, and that goes on until all is said")

enum sock_life {
#define X(name, text) LIFE_##name,
	SOCK_LIFE_LIST(X)
#undef X
		LIFE_COUNT
} __attribute__((packed)); /* a byte of each socket */

#define LIFE(name) (1u << LIFE_##name)

/* Of each state: a bit for each that may follow. */
extern const uint16_t sock_life_edges[LIFE_COUNT];

static inline bool sock_life_may(enum sock_life from, enum sock_life next)
{
	return sock_life_edges[from] & 1u << next;
}

const char *sock_life_name(enum sock_life life);

/* There is no such edge.  With assertions the process ends; else it is logged once. */
void sock_life_refused(enum sock_life from, enum sock_life next) __attribute__((cold));

struct inet_sock;

/*
 * Called for each edge, before it is taken, by whoever takes it; NULL: nobody looks.  Set
 * before there is a socket.
 */
extern void (*sock_life_trace)(const struct inet_sock *so, enum sock_life from,
			       enum sock_life next);

#endif
