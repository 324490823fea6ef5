/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the quick ways of recv(2), recvfrom(2), send(2) and sendto(2) have in common: one buffer, no
 * flags that matter, and what is needed is there.  All else is left to the calls of the hooks, and of
 * wait.h.  Instantiated per protocol, call and thread mode; the functions that are passed are known
 * when it is compiled, and inlined, as is whether there is an address.
 */
#ifndef SOCK_WAIT_QUICK_H
#define SOCK_WAIT_QUICK_H

#include <errno.h>
#include <netinet/in.h>

#include "base/mem.h"
#include "base/user.h"
#include "net/addr.h"
#include "sock/core/kind.h"

/*
 * app: the last receive of this thread by a quick way has found nothing, and lacks nothing else; the call that it
 * is left to takes that back.
 */
extern __thread bool quick_nothing __attribute__((tls_model("initial-exec")));

/*
 * A receive that has found nothing at once looks again up to so many times, the ring released in between, before
 * it waits by the loop of wait.h.  A look takes some 20 ns and touches one cache line of the peer's, a round of
 * that loop several and ten times as long: so a peer that answers within three microseconds is heard sooner.
 */
#define QUICK_LOOKS 128u

/*
 * app, no ring held: does a receive look, after it has looked so many times?  Not if it does not block, the
 * socket has other places to look at, the thread shares its core, or VMA_RX_POLL is less.
 */
bool quick_looks(struct sock_ref ref, int flags, unsigned looks);

#define QUICK_INLINE static inline __attribute__((always_inline))

/* holder of home: is the socket in a state that the call may act in? */
typedef bool quick_ready_fn(const struct inet_sock *so);

/* Of a receive: all that it lacks is that something arrives. */
#define QUICK_NOTHING (-4298)

/*
 * holder of home: bytes, or -EAGAIN: nothing was done, leave it to the other way; or QUICK_NOTHING.  to: the
 * program's, of an IPv4 address, or NULL.  from: becomes the sender's; NULL: nobody asks.
 */
typedef ssize_t quick_send_fn(struct inet_sock *so, const void *buf, size_t len,
			      const struct sockaddr_in *to);
typedef ssize_t quick_recv_fn(struct inet_sock *so, void *buf, size_t len,
			      struct sockaddr_in *from);

/* Pairs with sock_set_home() and with the ARRIVE of a move. */
QUICK_INLINE struct ring *quick_home(struct sock_ref ref)
{
	return __atomic_load_n(&ref.sk->home, __ATOMIC_ACQUIRE);
}

/*
 * holder of home: may the call act at once?  Nothing posted is waiting, and what the call does leaves
 * neither work nor frames to the release of the ring.
 */
QUICK_INLINE bool quick_is_here(struct sock_ref ref, const struct ring *home, quick_ready_fn *ready)
{
	return sock_at_home(ref, home) && inbox_empty(&home->inbox) && ready(inet_of(ref.sk));
}

QUICK_INLINE ssize_t quick_send_mode(int fd, const void *buf, size_t len, int flags,
				     const struct sockaddr *to, socklen_t to_len,
				     struct sock_ref ref, enum hold_mode mode,
				     quick_ready_fn *ready, quick_send_fn *at_once)
{
	struct ring *ring = quick_home(ref);
	struct sockaddr_in addr;
	ssize_t n = -EAGAIN;

	if (__builtin_expect(!mem_is_users(buf), 0) ||
	    (to && __builtin_expect(to_len != sizeof(addr) || !user_copy16(&addr, to), 0)) ||
	    __builtin_expect(!hold_acquire(&ring->hold, mode), 0))
		goto other;
	if (__builtin_expect(quick_is_here(ref, ring, ready), 1))
		n = at_once(inet_of(ref.sk), buf, len, to ? &addr : NULL);
	if (__builtin_expect(n >= 0, 1)) {
		ring_release_clean(ring, mode); /* here, too: n is not asked again */
		return n;
	}
	ring_release_clean(ring, mode);
other:
	return to ? sock_hooks.sendto(fd, buf, len, flags, to, to_len)
		  : sock_hooks.send(fd, buf, len, flags);
}

/*
 * name_len: the length of the addresses that the kernel tells for such a socket, 0: none.  As there,
 * an address that cannot be written loses what was received.
 */
QUICK_INLINE ssize_t quick_recv_mode(int fd, void *buf, size_t len, int flags,
				     struct sockaddr *from, socklen_t *from_len, socklen_t name_len,
				     struct sock_ref ref, enum hold_mode mode,
				     quick_ready_fn *ready, quick_recv_fn *at_once)
{
	struct ring *ring = quick_home(ref);
	struct sockaddr_in addr;
	uint32_t room;
	ssize_t n = -EAGAIN;

	if (__builtin_expect(flags & ~MSG_DONTWAIT, 0) || __builtin_expect(!mem_is_users(buf), 0) ||
	    (from &&
	     __builtin_expect(!user_load32(&room, from_len) || (int)room < 0 || room < name_len,
			      0)) ||
	    __builtin_expect(!hold_acquire(&ring->hold, mode), 0))
		goto other;
	if (__builtin_expect(quick_is_here(ref, ring, ready), 1))
		n = at_once(inet_of(ref.sk), buf, len, from ? &addr : NULL);
	if (__builtin_expect(n >= 0, 1)) {
		ring_release_clean(ring, mode); /* here, too: n is not asked again */
		if (!from || __builtin_expect((!name_len || user_copy16(from, &addr)) &&
						      user_store32(from_len, name_len),
					      1))
			return n;
		errno = EFAULT;
		return -1;
	}
	ring_release_clean(ring, mode);
	quick_nothing = n == QUICK_NOTHING;
other:
	return from ? sock_hooks.recvfrom(fd, buf, len, flags, from, from_len)
		    : sock_hooks.recv(fd, buf, len, flags);
}

/*
 * The looks of a receive.  Bytes; -EINTR: as of the whole call; else nothing was done, and the loop of wait.h
 * comes next.  tells: at_once() says who has sent it, an address of AF_INET.
 */
QUICK_INLINE ssize_t quick_look_mode(struct sock_ref ref, struct msghdr *msg, int flags,
				     enum hold_mode mode, bool tells, quick_ready_fn *ready,
				     quick_recv_fn *at_once)
{
	struct sock_signals before = sock_signals;
	bool asks = tells && msg->msg_name;
	struct sockaddr_in from;
	ssize_t n = QUICK_NOTHING;

	if ((flags & ~MSG_DONTWAIT) || msg->msg_iovlen != 1 || msg->msg_controllen ||
	    !mem_is_users(msg->msg_iov->iov_base))
		return -EAGAIN;
	for (unsigned looks = 0; n == QUICK_NOTHING && quick_looks(ref, flags, looks); looks++) {
		struct ring *ring = quick_home(ref);

		n = -EAGAIN;
		if (!hold_acquire(&ring->hold, mode))
			break;
		if (quick_is_here(ref, ring, ready))
			n = at_once(inet_of(ref.sk), msg->msg_iov->iov_base, msg->msg_iov->iov_len,
				    asks ? &from : NULL);
		ring_release_clean(ring, mode);
	}
	if (n < 0) /* a handler that runs from now on interrupts the other way */
		return sock_signals_interrupt(&before,
					      sock_timeout(&inet_of(ref.sk)->rcvtimeo) != 0)
			       ? -EINTR
			       : n;
	msg->msg_flags = 0;
	if (!tells) {
		msg->msg_namelen = 0;
	} else if (asks) {
		struct endpoint sender = {.addr = addr_v4(from.sin_addr.s_addr),
					  .port = from.sin_port};

		endpoint_to_sockaddr(&sender, AF_INET, msg->msg_name, &msg->msg_namelen);
	}
	return n;
}

/*
 * The calls of a thread mode, PREFIX_send_MODE and so on, of functions is_ready, send_at_once and
 * recv_at_once.
 */
#define QUICK_SENDS(prefix, name, mode)                                                      \
	ssize_t prefix##_send_##name(int fd, const void *buf, size_t len, int flags,         \
				     struct sock_ref ref)                                    \
	{                                                                                    \
		return quick_send_mode(fd, buf, len, flags, NULL, 0, ref, mode, is_ready,    \
				       send_at_once);                                        \
	}                                                                                    \
	ssize_t prefix##_sendto_##name(int fd, const void *buf, size_t len, int flags,       \
				       const struct sockaddr *to, socklen_t to_len,          \
				       struct sock_ref ref)                                  \
	{                                                                                    \
		return quick_send_mode(fd, buf, len, flags, to, to_len, ref, mode, is_ready, \
				       send_at_once);                                        \
	}

#define QUICK_CALLS(prefix, name, mode, name_len)                                                \
	QUICK_SENDS(prefix, name, mode)                                                          \
	ssize_t prefix##_recv_##name(int fd, void *buf, size_t len, int flags,                   \
				     struct sock_ref ref)                                        \
	{                                                                                        \
		return quick_recv_mode(fd, buf, len, flags, NULL, NULL, name_len, ref, mode,     \
				       is_ready, recv_at_once);                                  \
	}                                                                                        \
	ssize_t prefix##_recvfrom_##name(int fd, void *buf, size_t len, int flags,               \
					 struct sockaddr *from, socklen_t *from_len,             \
					 struct sock_ref ref)                                    \
	{                                                                                        \
		return quick_recv_mode(fd, buf, len, flags, from, from_len, name_len, ref, mode, \
				       is_ready, recv_at_once);                                  \
	}

/*
 * PREFIX_look_MODE, and PREFIX_recvmsg_MODE, which looks if the quick way has found nothing, and then calls the
 * receive OTHER_MODE.
 */
#define QUICK_LOOK(prefix, name, mode, tells, other)                                          \
	static __attribute__((noinline))                                                      \
	ssize_t prefix##_look_##name(struct sock_ref ref, struct msghdr *msg, int flags)      \
	{                                                                                     \
		return quick_look_mode(ref, msg, flags, mode, tells, is_ready, recv_at_once); \
	}                                                                                     \
	ssize_t prefix##_recvmsg_##name(struct sock_ref ref, struct msghdr *msg, int flags)   \
	{                                                                                     \
		ssize_t n;                                                                    \
                                                                                              \
		if (!quick_nothing)                                                           \
			return other##_##name(ref, msg, flags);                               \
		quick_nothing = false;                                                        \
		n = prefix##_look_##name(ref, msg, flags);                                    \
		return n >= 0 || n == -EINTR ? n : other##_##name(ref, msg, flags);           \
	}

#endif
