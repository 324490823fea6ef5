/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets that the program sends to other processes, SCM_RIGHTS. */
#include <errno.h>

#include "sock/family_internal.h"

/* Nothing is lost by it, and nobody goes on receiving in the kernel's place. */
static bool may_pass(struct inet_sock *so, struct ring *ring)
{
	ring_poll(ring);
	if (so->inet == INET_LISTEN)
		return !__atomic_load_n(&so->listen.waiting, __ATOMIC_RELAXED);
	return so->inet != INET_UDP || !so->connected || !so->udp.head;
}

static int pass(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	bool may;
	int rc;

	if (family_other_holder(so, NULL))
		return -EBUSY;
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	may = may_pass(so, ring);
	ring_release_cold(ring);
	return may ? sock_leave(so, VERDICT_PASSED) : -EBUSY;
}

int sock_pass(struct sock_ref ref)
{
	int rc = 0;

	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref))
		rc = pass(ref);
	control_unlock();
	return rc;
}
