/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stands in for src/sock: sockets that record what intercept asks for and answer
 * what a test wants.  Linked before the real one, which is then not needed.
 */
#ifndef FAKE_SOCK_H
#define FAKE_SOCK_H

#include <limits.h>

#include "sock/core/sock.h"

#define FAKE_SOCKETS 64

struct fake {
	bool refuse;		 /* sock_create() leaves sockets to the kernel */
	ssize_t rc;		 /* what the next operations answer ... */
	int rc_after;		 /* ... once so many of them did well */
	bool on_accept;		 /* accept() answers with a child of ours */
	bool plain;		 /* epoll_is_plain() */
	bool stays;		 /* sock_pass() refuses */
	int stays_after;	 /* the same, once it passed so many; 0: never */
	bool travels;		 /* what it passes is on its way */
	struct sock_ref arrives; /* pass_take() */

	/* what was seen */
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
	int kernel_fds; /* as epoll was told */
	int forked;
	int unprivileged, changed_root;
	int carried; /* channels that exec_inherit_open() was given */
	nsec_t timeout;
	char data[65536]; /* what send() saw last, what recv() gives */
};

extern struct fake fake;

void fake_reset(void);
bool fake_is_open(struct sock_ref ref);
/* As sock does it when a socket leaves. */
void fake_leave(struct sock *sk);

#endif
