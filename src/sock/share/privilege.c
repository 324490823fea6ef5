/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A forked process gives up its privileges: a worker of a server whose master keeps them.
 * While it still has them, it opens what it needs to receive for the listeners and datagram
 * sockets that it inherited from its parent.  Then its ports are fenced: the kernel lets
 * them do only what those sockets may.  See xdp_fence.c.
 *
 * A process that was not forked, or whose parent shares nothing with it, keeps what it has
 * opened.
 *
 * The alternative is a parent that opens, binds and steers on request.  It would delay each
 * accepted connection and protect no more: all users of a queue map its one UMEM, and a
 * process with an AF_XDP socket can send anything.
 */
#include "sock/local/local.h"
#include "sock/share/share.h"

#include "sock/share/share_internal.h"

#define RESERVED_MAX 1024 /* sockets; the kernel serves the others */

/* Claims the port while the file of claims can be opened. */
static void reserve(struct inet_sock *so)
{
	if (sock_start_for(so) != VERDICT_ACCELERATED)
		return;
	sock_port_claim(so);
	sock_reserve(so);
}

/* Control lock. Reserves rings for the members. */
static void reserve_inherited(void)
{
	unsigned n = 0;

	control_assert_held();
	list_for_each(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (share_is_member(so) && so->bound && so->verdict == VERDICT_ACCELERATED &&
		    n++ < RESERVED_MAX)
			reserve(so);
	}
}

static bool unprivileged; /* any, atomic; control lock to write */

bool sock_is_unprivileged(void)
{
	return __atomic_load_n(&unprivileged, __ATOMIC_RELAXED);
}

/*
 * Control lock.  The next exported socket that was a local connection in the parent; *id: of the
 * one before.
 */
static struct sock_ref next_local(uint64_t *id)
{
	struct sock_ref ref = {NULL, 0};
	uint64_t least = UINT64_MAX;

	control_assert_held();
	list_for_each(link, sock_list()) {
		struct inet_sock *so = container_of(link, struct inet_sock, link);

		if (sock_has_owner(so) && sock_is_exported(&so->sk) &&
		    so->verdict == VERDICT_LOCAL && so->id > *id && so->id < least) {
			ref = sock_ref_of(so);
			least = so->id;
		}
	}
	*id = least;
	return ref;
}

/* Another user can import no local connection: it has them before. */
static void fetch_local(void)
{
	struct sock_ref ref;
	uint64_t id = 0;

	do {
		if (!control_lock())
			return;
		ref = next_local(&id);
		control_unlock();
		if (ref.sk)
			(void)share_fetch(ref, SHARE_FETCH_MAX);
	} while (ref.sk);
}

void sock_unprivileged(void)
{
	fetch_local();
	if (!control_lock())
		return;
	local_links_keep_ways();
	local_unprivileged();
	if (share_process.up) {
		reserve_inherited();
		rings_fence();
		__atomic_store_n(&unprivileged, true, __ATOMIC_RELAXED);
	}
	control_unlock();
}

void sock_changes_root(void)
{
	if (!share_process.up || !control_lock())
		return;
	reserve_inherited();
	control_unlock();
}
