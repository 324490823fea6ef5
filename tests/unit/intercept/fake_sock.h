/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replaces src/sock: these sockets record what intercept calls, and return what a test wants.
 * Linked before the real sock, which is then not needed.
 */
#ifndef FAKE_SOCK_H
#define FAKE_SOCK_H

#include <limits.h>

#include "sock/core/sock.h"

#define FAKE_SOCKETS 64

struct fake {
	bool refuse;		   /* sock_create() creates no object */
	ssize_t rc;		   /* result of the next operations ... */
	int rc_after;		   /* ... after this many operations succeeded */
	enum verdict verdict;	   /* of all sockets */
	unsigned batch_done;	   /* messages that a batch has before rc */
	bool room_copies;	   /* room_commit() leaves it to send() */
	bool on_accept;		   /* accept() returns a socket with an object */
	bool plain;		   /* epoll_is_plain() */
	bool sock_pass_fails;	   /* sock_pass() fails */
	int sock_pass_fails_after; /* it fails after this many successes; 0: never */
	bool in_transit;	   /* sock_pass() marks sockets as in transit */
	bool lends;		   /* there are sockets to inherit */
	bool is_local;		   /* ... or finds a local connection that can go to a relay only */
	struct sock *stays;	   /* sock_to_kernel() fails for it */
	struct sock_ref listener;  /* connections wait there, as xtreme_poll() tells */
	struct sock_ref arrives;   /* pass_take() */
	unsigned n_rings;	   /* of all sockets: numbers 5, 6... */
	int number;		   /* of the ring that sends; 0: 5 */
	bool card;		   /* direct rings are available */
	uint32_t life;		   /* of all direct rings; 0: they have ended */
	int card_fd;		   /* their descriptor */

	/* the recorded calls */
	const char *op;
	int ops, flags, arg;
	size_t bytes;
	const void *name;
	socklen_t namelen;
	struct sock *closed;
	int n_closed;
	unsigned kept, n_freed; /* rooms */
	int to_kernel, passed;
	int n_async, async; /* calls of sock_set_async(); the last one: fd, negative: off */
	int way, n_sent, n_unsent;
	uint64_t tickets, sent, unsent;
	bool peek;
	int kernel_fds; /* descriptors that were reported to the epoll set */
	int forked;
	int unprivileged, changed_root;
	int slow_fork;	  /* sock_fork_child() yields so many times */
	int n_opened;	  /* calls of exec_inherit_open() */
	unsigned n_local; /* calls of exec_local_add() */
	unsigned n_back;  /* calls of pass_local_end() that take it back */
	int detached;	  /* calls of sock_fork_prepare() for a child without sockets ... */
	bool preparing;	  /* ... without sock_fork_parent() */
	nsec_t timeout;
	char data[65536]; /* what send() got last, and what recv() returns */
};

extern struct fake fake;

void fake_reset(void);
bool fake_is_open(struct sock_ref ref);
/* Does what sock does when a socket falls back to the kernel. */
void fake_leave(struct sock *sk);

#endif
