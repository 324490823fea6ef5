/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happens while a quick receive looks again (sock/wait/quick.h): arriving() is called before the look
 * with the number arrive_at.  For tests that are linked with --wrap=quick_looks.
 *
 * Role		one thread.
 */
#ifndef TESTS_UNIT_SOCK_LOCAL_LOOKS_H
#define TESTS_UNIT_SOCK_LOCAL_LOOKS_H

#include "ring/hold.h"
#include "sock/wait/quick.h"
#include "sock/wait/spin.h"
#include "vma_test.h"

bool __real_quick_looks(struct sock_ref ref, int flags, unsigned looks);
bool __wrap_quick_looks(struct sock_ref ref, int flags, unsigned looks);

static unsigned looked, arrive_at;
static unsigned series; /* of looks: a call that waits has others between the rounds of its loop */
static unsigned first;	/* looks of the first series */
static void (*arriving)(void);

bool __wrap_quick_looks(struct sock_ref ref, int flags, unsigned looks)
{
	bool again = __real_quick_looks(ref, flags, looks);

	assert_null(hold_current);
	series += !looks;
	if (series == 1)
		first += again;
	looked += again;
	if (again && looked == arrive_at)
		arriving();
	return again;
}

/* As on a machine of its own: the kernel has not switched to another thread. */
static long no_switch(void)
{
	return 0;
}

/* msec, of look_and_recv().  A thread that loses its processor has fewer looks in that time. */
static int looks_timeout = 10;

/* recv(2); a call that goes on after its looks waits for a moment. */
static inline ssize_t look_and_recv(struct inet_sock *at, void *buf, size_t len, int flags)
{
	struct iovec iov = {buf, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	looked = series = first = 0;
	quick_nothing = true; /* the quick way was tried */
	spin_switches = no_switch;
	at->rcvtimeo = looks_timeout;
	return sock_ops_of(&at->sk)->recv(sock_ref_of(at), &msg, flags);
}

#endif
