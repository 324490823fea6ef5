/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replaces src/sock: sockets that record what intercept calls, and return what a test
 * wants. Linked before the real one, which is then not needed.
 */
#ifndef FAKE_SOCK_H
#define FAKE_SOCK_H

#include <limits.h>

#include "sock/core/sock.h"

#define FAKE_SOCKETS 64

struct fake {
	bool refuse;		   /* sock_create() makes no socket of ours */
	ssize_t rc;		   /* what the next operations return ... */
	int rc_after;		   /* ... after so many of them succeeded */
	bool on_accept;		   /* accept() returns a child of ours */
	bool plain;		   /* epoll_is_plain() */
	bool sock_pass_fails;	   /* sock_pass() fails */
	int sock_pass_fails_after; /* the same, after so many successes; 0: never */
	bool in_transit;	   /* sock_pass() puts sockets in transit */
	struct sock_ref arrives;   /* pass_take() */

	/* what was called */
	const char *op;
	int ops, flags, arg;
	size_t bytes;
	const void *name;
	socklen_t namelen;
	struct sock *closed;
	int n_closed;
	int to_kernel, passed;
	int way, n_sent, n_unsent;
	uint64_t tickets, sent, unsent;
	bool peek;
	int kernel_fds; /* as reported to the epoll set */
	int forked;
	int unprivileged, changed_root;
	int n_opened; /* calls of exec_inherit_open() */
	nsec_t timeout;
	char data[65536]; /* what send() got last, what recv() returns */
};

extern struct fake fake;

void fake_reset(void);
bool fake_is_open(struct sock_ref ref);
/* As sock does it when a socket falls back to the kernel. */
void fake_leave(struct sock *sk);

#endif
