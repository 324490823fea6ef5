/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The quick way of calls on local connections (wait/quick.h).  All else is left to the
 * calls of local_recv.c and local_send.c.
 */
#include "sock/local/local_link_internal.h"
#include "sock/local/local_sock.h"
#include "sock/wait/quick.h"

static inline bool is_ready(const struct inet_sock *so)
{
	return local_is_one(so) && so->shm.established &&
	       !__atomic_load_n(&so->shm.unusual, __ATOMIC_RELAXED);
}

/* The address is not looked at, as that of any connection. */
QUICK_INLINE ssize_t send_at_once(struct inet_sock *so, const void *buf, size_t len,
				  const struct sockaddr_in *to)
{
	struct shm_state *shm = &so->shm;
	struct local_link *link = shm->end.link;
	size_t n = 0;

	(void)to;
	if (__builtin_expect(!shm->ended && link, 1))
		n = byte_ring_write_at_once(&shm->out, buf, len);
	if (__builtin_expect(n == 0, 0))
		return -EAGAIN;
	notice_post(&link->out, shm->end.number);
	shm->sends++;
	return (ssize_t)n;
}

/* Where a peek offset, a callback or an urgent byte has to be looked at, nothing is done at once. */
QUICK_INLINE ssize_t recv_at_once(struct inet_sock *so, void *buf, size_t len,
				  struct sockaddr_in *from)
{
	struct shm_state *shm = &so->shm;
	size_t n;

	(void)from;
	if (__builtin_expect(so->rcvlowat > 1 || shm->aside, 0))
		return -EAGAIN;
	n = byte_ring_read_at_once(&shm->in, buf, len);
	if (__builtin_expect(n == 0, 0))
		return byte_ring_is_quiet(&shm->in) ? QUICK_NOTHING : -EAGAIN;
	shm->reads++;
	local_conn_consumed(so);
	return (ssize_t)n;
}

#define X(name, mode)                           \
	QUICK_CALLS(local_quick, name, mode, 0) \
	QUICK_LOOK(local_quick, name, mode, false, local_recv)
SOCK_MODES(X)
#undef X
