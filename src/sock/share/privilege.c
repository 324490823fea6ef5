/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A forked process that gives up its privileges: a worker of a server whose master keeps
 * them.  While it still has them it opens what it needs to receive for the listeners and
 * datagram sockets that its parent left to it, and then the ports are fenced: by the kernel,
 * with what those sockets may have.  See xdp_fence.c.
 *
 * One that was not forked, or whose parent shares nothing with it, keeps what it has opened.
 */
#include "sock/share/share.h"

#include "sock/share/share_internal.h"

#define RESERVED_MAX 1024 /* sockets; what is beyond is the kernel's */

/* Its port is claimed while the file of claims can be opened. */
static void reserve(struct inet_sock *so)
{
	if (sock_start_for(so) != VERDICT_ACCELERATED)
		return;
	sock_port_claim(so);
	sock_reserve(so);
}

/* Control lock. */
static void reserve_inherited(void)
{
	unsigned n = 0;

	list_for_each(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (share_is_member(so) && so->bound && so->verdict == VERDICT_ACCELERATED &&
		    n++ < RESERVED_MAX)
			reserve(so);
	}
}

static bool unprivileged; /* control lock to write */

bool sock_is_unprivileged(void)
{
	return __atomic_load_n(&unprivileged, __ATOMIC_RELAXED);
}

void sock_unprivileged(void)
{
	if (!share_process.up || !control_lock())
		return;
	reserve_inherited();
	rings_fence();
	__atomic_store_n(&unprivileged, true, __ATOMIC_RELAXED);
	control_unlock();
}

void sock_changes_root(void)
{
	if (!share_process.up || !control_lock())
		return;
	reserve_inherited();
	control_unlock();
}
