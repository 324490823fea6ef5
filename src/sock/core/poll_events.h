/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of poll(2) and epoll(7), which use the same bits.
 *
 * The kernel always sets the aliases EPOLLRDNORM, EPOLLWRNORM and EPOLLWRBAND together with
 * EPOLLIN and EPOLLOUT.  In sock.events they may be missing; they are added here.
 */
#ifndef SOCK_CORE_POLL_EVENTS_H
#define SOCK_CORE_POLL_EVENTS_H

#include <poll.h>
#include <sys/epoll.h>

#include "sock/core/sock.h"

_Static_assert((int)EPOLLIN == POLLIN && (int)EPOLLOUT == POLLOUT && (int)EPOLLERR == POLLERR &&
		       (int)EPOLLHUP == POLLHUP && (int)EPOLLPRI == POLLPRI &&
		       (int)EPOLLRDNORM == POLLRDNORM && (int)EPOLLWRBAND == POLLWRBAND &&
		       (int)EPOLLRDHUP == POLLRDHUP,
	       "one set of bits");

#define POLL_READABLE (EPOLLIN | EPOLLRDNORM)
#define POLL_WRITABLE (EPOLLOUT | EPOLLWRNORM)

/* Converts what ppoll(2) reports for a twin to sock.twin_events. */
static inline uint32_t poll_events_of_twin(uint32_t revents)
{
	return (revents & (EPOLLIN | EPOLLHUP) ? POLL_READABLE : 0) | (revents & EPOLLERR);
}

/* The events that a watch needs so that none of these is missed. */
static inline uint32_t poll_events_wanted(uint32_t events)
{
	if (events & EPOLLRDNORM)
		events |= EPOLLIN;
	if (events & (EPOLLWRNORM | EPOLLWRBAND))
		events |= EPOLLOUT;
	return events;
}

/* All events that are true now.  What the twin had at the last look is checked again. */
static inline uint32_t poll_events_now(struct sock *sk)
{
	/* Pairs with sock_set_events(). */
	uint32_t events = __atomic_load_n(&sk->events, __ATOMIC_ACQUIRE);
	uint32_t twin = __atomic_load_n(&sk->twin_events, __ATOMIC_RELAXED);

	if (twin & ~(events & EPOLLIN ? (uint32_t)POLL_READABLE : 0)) {
		sock_look_at_twin(sk);
		events |= __atomic_load_n(&sk->twin_events, __ATOMIC_RELAXED);
	}
	if (events & EPOLLIN)
		events |= EPOLLRDNORM;
	if (events & EPOLLOUT)
		events |= EPOLLWRNORM | (sk->type == SOCK_TYPE_UDP ? EPOLLWRBAND : 0);
	return events;
}

/*
 * The events that an end tells of, of one direction or both: as in the kernel, all that a reader waits for, also what
 * was set before; so that an edge comes.  0: none has ended.
 */
static inline uint32_t poll_events_of_end(uint32_t before, uint32_t now)
{
	bool ended = now & ~before & (EPOLLRDHUP | EPOLLHUP);

	return ended ? now & ~(uint32_t)(EPOLLOUT | EPOLLWRNORM) : 0;
}

#endif
