/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rings that concern a call of poll, select or epoll_wait, and the
 * descriptors to sleep on.
 *
 * Role		the thread in the call, holding no ring.
 */
#ifndef SOCK_POLL_RINGS_H
#define SOCK_POLL_RINGS_H

#include <poll.h>

#include "sock/sock.h"

struct ring_set {
	unsigned n;
	struct ring *rings[SOCK_RINGS_MAX]; /* more than that: the internal thread's */
};

void ring_set_add(struct ring_set *set, struct ring *ring);
void ring_set_add_sock(struct ring_set *set, const struct sock *sk);

/* One round on each; frames. */
int ring_set_poll(const struct ring_set *set);

/* Between these two, the thread sleeps on the rings' descriptors itself. */
void ring_set_sleep(const struct ring_set *set);
void ring_set_woken(const struct ring_set *set);

#define SLEEP_FEW 48

struct sleep_fds {
	struct pollfd *fds; /* [0] is the waiter's */
	unsigned n, room;
	struct pollfd few[SLEEP_FEW];
};

/* Room for n of them beside the waiter's and the rings'; false: no memory. */
bool sleep_fds_init(struct sleep_fds *sleep, unsigned n, const struct ring_set *set);
void sleep_fds_fini(struct sleep_fds *sleep);
void sleep_fds_add(struct sleep_fds *sleep, int fd, short events);
void sleep_fds_add_rings(struct sleep_fds *sleep, const struct ring_set *set);

#endif
