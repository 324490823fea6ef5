/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for one socket, in a blocking call: first polling, then sleeping.
 *
 *	SOCK_WAIT(wait);
 *	sock_wait_begin(&wait, ref, EPOLLIN, timeout);
 *	for (;;) {
 *		hold; try; poll; try; release;
 *		rc = sock_wait_next(&wait);
 *		if (rc)
 *			return rc;
 *	}
 *
 * Role		app, holding no ring.
 */
#ifndef SOCK_WAIT_WAIT_H
#define SOCK_WAIT_WAIT_H

#include "base/cleanup.h"
#include "sock/core/sock.h"
#include "sock/wait/spin.h"

struct sock_wait {
	struct sock_ref ref; /* sk NULL: not begun */
	uint32_t events;
	int polls;		    /* left before sleeping; negative: never sleep */
	nsec_t deadline;	    /* NSEC_NEVER: none */
	struct sock_signals before; /* when the call began, not when it came to wait */
	struct spin spin;
	struct cleanup undo; /* of the whole wait */
};

/*
 * A wait that ends with its scope.  While a thread waits, the socket lives: a
 * close() by another thread takes effect when the last one has left, as the kernel
 * keeps a file open during a call.  It stands where the call begins: handlers that run from
 * then on interrupt it.
 */
#define SOCK_WAIT(name)                                                                    \
	struct sock_wait name __attribute__((cleanup(sock_wait_end))) = {.ref = {NULL, 0}, \
									 .before = sock_signals}

void sock_wait_finish(struct sock_wait *wait);

static inline void sock_wait_end(struct sock_wait *wait)
{
	if (__builtin_expect(wait->ref.sk != NULL, 0))
		sock_wait_finish(wait);
}

/* timeout: 0 means none, as SO_RCVTIMEO does. */
void sock_wait_begin(struct sock_wait *wait, struct sock_ref ref, uint32_t events, nsec_t timeout);

/*
 * After a round that found nothing: polls the socket's other rings, lets others
 * run, sleeps when the polling budget is spent.  0: try again.  -EAGAIN: the
 * time is over.  -EINTR: a signal handler ran and the call is not restarted.
 * -EBADF: the socket was closed.
 */
int sock_wait_next(struct sock_wait *wait);

#endif
