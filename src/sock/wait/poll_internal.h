/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A call of poll(2) or select(2).
 *
 * The kernel is asked about a shadow of the caller's array.  It has the same entry for a
 * descriptor of the kernel, the twin for an accelerated socket whose twin matters, and -1 for
 * any other socket.  Accelerated sockets are members: each round looks at their events, and
 * they are watched while the thread sleeps.
 *
 * Role		the thread in the call.
 * Lifetime	on its stack.
 */
#ifndef SOCK_WAIT_POLL_INTERNAL_H
#define SOCK_WAIT_POLL_INTERNAL_H

#include "base/cleanup.h"
#include "sock/core/ready.h"
#include "sock/wait/epoll_internal.h"
#include "sock/wait/iomux.h"
#include "sock/wait/poll_rings.h"
#include "sock/wait/poll_signals.h"
#include "sock/wait/spin.h"

/* With this many descriptors, and this many sockets among them, the call allocates no memory. */
#define POLL_FEW_FDS 32
#define POLL_FEW_MEMBERS 16

/* An accelerated socket of the call. */
struct member {
	struct sock_ref ref;
	struct epoll *set; /* an epoll set, or NULL: a socket */
	nfds_t at;	   /* index in the array */
	struct watch watch;
	struct sleeper guest; /* at the set */
};

struct call {
	struct pollfd *fds; /* the caller's, or what select() made from its bits */
	struct pollfd *shadow;
	nfds_t n;
	struct member *members;
	nfds_t n_members, room;
	nfds_t n_kernel; /* entries of the shadow that are not -1 */
	unsigned n_sets; /* members that are epoll sets */
	fd_lookup_fn lookup;
	void *owned; /* allocated by our caller, freed if the thread is cancelled; or NULL */
	bool select;
	bool deaf; /* the shadow has events that were not asked for */
	nsec_t deadline;
	struct poll_signals signals;
	struct spin spin;
	struct iomux iomux;
	int ours; /* members that are ready */
	struct cleanup undo;
	uint32_t gen; /* sock_rings_generation() of ->rings */
	struct ring_set rings;
	struct pollfd few_shadow[POLL_FEW_FDS];
	struct member few_members[POLL_FEW_MEMBERS];
};

/* The call from here on; ->fds, n, lookup, owned and select are set. */
int poll_call(struct call *call, nsec_t timeout, const sigset_t *mask);
/* Frees the call's memory; also when the thread is cancelled. */
void poll_end(struct call *call);
/* A cleanup handler: the same, and frees what the caller owns. */
void poll_cancelled(void *call);

/* Adds the number of ready members to *ready.  False: descriptors have to be looked up again. */
bool poll_check_members(struct call *call, int *ready);
/* Updates the rings and twins of the members. */
void poll_follow_rings(struct call *call);

/* Sleeps until something may have happened: 0, -EINTR or another error. */
int poll_sleep(struct call *call);

#endif
