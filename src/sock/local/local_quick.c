/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The quick way of recv(2) and send(2) on local connections: one buffer, no flags that matter, and
 * what is needed is there.  All else is left to the calls of local_recv.c and local_send.c.
 * Written once, instantiated per thread mode.
 */
#include "base/mem.h"
#include "sock/local/local_link_internal.h"
#include "sock/local/local_sock.h"

static inline bool is_ready(const struct inet_sock *so)
{
	return local_is_one(so) && so->shm.established &&
	       !__atomic_load_n(&so->shm.kept_error, __ATOMIC_RELAXED);
}

/*
 * holder of home: may the call act at once?  Nothing posted is waiting, and what the call does adds
 * no work to the ring.
 */
static inline bool is_here(struct sock_ref ref, const struct ring *home)
{
	return sock_at_home(ref, home) && inbox_empty(&home->inbox) && is_ready(inet_of(ref.sk));
}

/* Pairs with sock_set_home() and with the ARRIVE of a move. */
static inline struct ring *home_of(struct sock_ref ref)
{
	return __atomic_load_n(&ref.sk->home, __ATOMIC_ACQUIRE);
}

static inline __attribute__((always_inline)) size_t send_at_once(struct inet_sock *so,
								 const void *buf, size_t len)
{
	struct shm_state *shm = &so->shm;
	struct local_link *link = shm->end.link;
	size_t n = 0;

	if (__builtin_expect(!shm->ended && link, 1))
		n = byte_ring_write_at_once(&shm->out, buf, len);
	if (__builtin_expect(n != 0, 1)) {
		notice_post(&link->out, shm->end.number);
		shm->sends++;
	}
	return n;
}

static inline __attribute__((always_inline)) ssize_t
send_mode(int fd, const void *buf, size_t len, int flags, struct sock_ref ref, enum hold_mode mode)
{
	struct ring *ring = home_of(ref);
	size_t n = 0;

	if (__builtin_expect(flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL), 0) ||
	    __builtin_expect(!mem_is_users(buf), 0) ||
	    __builtin_expect(!hold_acquire(&ring->hold, mode), 0))
		return sock_hooks.send(fd, buf, len, flags);
	if (__builtin_expect(is_here(ref, ring), 1))
		n = send_at_once(inet_of(ref.sk), buf, len);
	ring_release_clean(ring, mode);
	return __builtin_expect(n != 0, 1) ? (ssize_t)n : sock_hooks.send(fd, buf, len, flags);
}

/* Where a peek offset or an urgent byte has to be looked at, nothing is done at once. */
static inline __attribute__((always_inline)) size_t recv_at_once(struct inet_sock *so, void *buf,
								 size_t len)
{
	struct shm_state *shm = &so->shm;
	size_t n = 0;

	if (__builtin_expect(so->rcvlowat <= 1 && !shm->peek_offset, 1))
		n = byte_ring_read_at_once(&shm->in, buf, len);
	if (__builtin_expect(n != 0, 1)) {
		shm->reads++;
		local_conn_consumed(so);
	}
	return n;
}

static inline __attribute__((always_inline)) ssize_t
recv_mode(int fd, void *buf, size_t len, int flags, struct sock_ref ref, enum hold_mode mode)
{
	struct ring *ring = home_of(ref);
	size_t n = 0;

	if (__builtin_expect(flags & ~MSG_DONTWAIT, 0) || __builtin_expect(!mem_is_users(buf), 0) ||
	    __builtin_expect(!hold_acquire(&ring->hold, mode), 0))
		return sock_hooks.recv(fd, buf, len, flags);
	if (__builtin_expect(is_here(ref, ring), 1))
		n = recv_at_once(inet_of(ref.sk), buf, len);
	ring_release_clean(ring, mode);
	return __builtin_expect(n != 0, 1) ? (ssize_t)n : sock_hooks.recv(fd, buf, len, flags);
}

#define X(name, mode)                                                                   \
	ssize_t local_quick_recv_##name(int fd, void *buf, size_t len, int flags,       \
					struct sock_ref ref)                            \
	{                                                                               \
		return recv_mode(fd, buf, len, flags, ref, mode);                       \
	}                                                                               \
	ssize_t local_quick_send_##name(int fd, const void *buf, size_t len, int flags, \
					struct sock_ref ref)                            \
	{                                                                               \
		return send_mode(fd, buf, len, flags, ref, mode);                       \
	}
SOCK_MODES(X)
#undef X
