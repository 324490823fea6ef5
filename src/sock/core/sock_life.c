/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/sock_life.h"

#include <assert.h>

#include "base/log.h"

void (*sock_life_trace)(const struct inet_sock *so, enum sock_life from, enum sock_life next);

/* In the order of the states. */
const uint16_t sock_life_edges[LIFE_COUNT] = {
	[LIFE_FREE] = LIFE(OPEN),
	[LIFE_CLOSED] = LIFE(FREE),
	[LIFE_OPEN] = LIFE(RECEIVING) | LIFE(LISTENING) | LIFE(LINGERING) | LIFE(EXPORTED) |
		      LIFE(LOCAL) | LIFE(HANDSHAKE) | LIFE(CONNECTING) | LIFE(CLOSED) | LIFE(FREE),
	/* OPEN: connect(2) with AF_UNSPEC gave up the port that connect(2) had chosen. */
	[LIFE_RECEIVING] = LIFE(OPEN) | LIFE(LINGERING) | LIFE(EXPORTED) | LIFE(KEPT_RECEIVER) |
			   LIFE(CLOSED),
	/* OPEN: the kernel refused listen(2). */
	[LIFE_LISTENING] = LIFE(OPEN) | LIFE(EXPORTED) | LIFE(KEPT_RECEIVER) | LIFE(CLOSED),
	[LIFE_LINGERING] = LIFE(CLOSED),
	[LIFE_EXPORTED] = LIFE(RECEIVING) | LIFE(LISTENING) | LIFE(CONNECTING) | LIFE(CONNECTED) |
			  LIFE(LOCAL) | LIFE(KEPT_EXPORTED) | LIFE(CLOSED) | LIFE(FREE),
	[LIFE_KEPT_RECEIVER] = LIFE(KEPT_EXPORTED) | LIFE(CLOSED),
	[LIFE_KEPT_EXPORTED] = LIFE(EXPORTED) | LIFE(KEPT) | LIFE(CLOSED),
	/* OPEN: it failed, or was disconnected by connect(2) with AF_UNSPEC. */
	[LIFE_LOCAL] = LIFE(OPEN) | LIFE(EXPORTED) | LIFE(KEPT) | LIFE(CLOSED),
	/* ORPHAN: it ended before it reached the listener's queue. */
	[LIFE_HANDSHAKE] = LIFE(QUEUED) | LIFE(ORPHAN) | LIFE(FREE),
	/* EXPORTED: it was sent to another process, which will accept it. */
	[LIFE_QUEUED] = LIFE(CONNECTED) | LIFE(EXPORTED) | LIFE(ORPHAN),
	/*
	 * OPEN: it failed, was disconnected by connect(2) with AF_UNSPEC, or falls back to the
	 * kernel.  QUEUED: it was imported, unaccepted, from another process that listens.
	 */
	[LIFE_CONNECTING] = LIFE(CONNECTED) | LIFE(OPEN) | LIFE(EXPORTED) | LIFE(QUEUED) |
			    LIFE(KEPT) | LIFE(ORPHAN),
	[LIFE_CONNECTED] = LIFE(OPEN) | LIFE(EXPORTED) | LIFE(KEPT) | LIFE(ORPHAN),
	/*
	 * CONNECTING, CONNECTED, LOCAL: the program received it again (SCM_RIGHTS).  CLOSED: it
	 * fell back to the kernel, or is a local connection.
	 */
	[LIFE_KEPT] = LIFE(KEPT_EXPORTED) | LIFE(CONNECTING) | LIFE(CONNECTED) | LIFE(LOCAL) |
		      LIFE(ORPHAN) | LIFE(CLOSED),
	[LIFE_ORPHAN] = LIFE(CLOSED),
};

const char *sock_life_name(enum sock_life life)
{
	static const char *const names[LIFE_COUNT] = {
#define X(name) [LIFE_##name] = #name,
		SOCK_LIFE_LIST(X)
#undef X
	};

	return life < LIFE_COUNT ? names[life] : "?";
}

void sock_life_refused(enum sock_life from, enum sock_life next)
{
	static bool told; /* any, atomic */

	if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		log_error("the state of a socket goes from %s to %s, which it must not: please "
			  "report this",
			  sock_life_name(from), sock_life_name(next));
	assert(!"a legal edge of a socket's life");
}
