/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rings that concern a call of poll, select or epoll_wait, and the
 * descriptors to sleep on.
 *
 * Role		the thread in the call, holding no ring.
 */
#ifndef SOCK_WAIT_POLL_RINGS_H
#define SOCK_WAIT_POLL_RINGS_H

#include <poll.h>

#include "ring/local/port_local.h"
#include "sock/core/ready.h"

struct ring_set {
	unsigned n;
	bool beside; /* if n is not 0: one of them brings what processes of this host send */
	struct ring *rings[SOCK_RINGS_MAX]; /* the internal thread polls the others */
};

void ring_set_add(struct ring_set *set, struct ring *ring);
void ring_set_add_sock(struct ring_set *set, const struct sock *sk);

/* Does it bring what processes of this host send? */
static inline bool ring_is_beside(const struct ring *ring)
{
	return ring_interface(ring) == PORT_LOCAL_IFINDEX;
}

static inline bool ring_set_is_beside(const struct ring_set *set)
{
	return set->n && set->beside;
}

/* One round on each ring; the number of frames. */
int ring_set_poll(const struct ring_set *set);

/* ---- sleeping ---------------------------------------------------------------------- */

#define SLEEP_FEW 48

struct sleep_fds {
	struct pollfd *fds; /* [0]: the wakeup's */
	unsigned n, room;
	struct pollfd few[SLEEP_FEW];
};

/* False: no room. */
bool sleep_fds_add(struct sleep_fds *sleep, int fd, short events);

/*
 * A rest: one sleep of a call, at its waiter and at its rings.  See ring/sleep.h.
 *
 *	if (!rest_begin(&rest, waiter, set, n))
 *		...
 *	while (sleep_listen(&rest.sleep) && nothing) {
 *		sleep_fds_add(&rest.fds, ...);		the call's own, at most n
 *		rc = rest_now(&rest, deadline, mask);
 *		if (rc)
 *			break;
 *	}
 *	rest_end(&rest);
 */
struct rest {
	struct sleep sleep;
	struct sleeper own; /* at the waiter */
	const struct ring_set *set;
	struct sleeper at[SOCK_RINGS_MAX];
	uint8_t n_fds[SOCK_RINGS_MAX]; /* of the rings whose leader this thread is, in this sleep */
	struct sleep_fds fds;
};

/* Room for n descriptors beside those of the rings.  False: no memory, and nothing has begun. */
bool rest_begin(struct rest *rest, struct waiter *waiter, const struct ring_set *set, unsigned n);

/*
 * Sleeps; then polls the rings that it watches and that have frames.  0: look again, and
 * sleep on if there is nothing.  Otherwise the rest is over: the number of the call's own
 * ready descriptors (rest->fds has their events); REST_EXPIRED; -EINTR or another error of
 * ppoll(2).  A cancellation point.
 */
#define REST_EXPIRED 0x10000000
int rest_now(struct rest *rest, nsec_t deadline, const sigset_t *mask);

/* Also when the thread is cancelled. */
void rest_end(struct rest *rest);

#endif
