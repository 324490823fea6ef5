/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The quick way of calls on datagram sockets whose peers are local (wait/quick.h).  All else is left
 * to the calls of udp_recv.c and udp_send.c.
 */
#include "ring/local/record_quick.h"
#include "sock/local/local_link_internal.h"
#include "sock/local/local_udp.h"
#include "sock/udp/udp_sock.h"
#include "sock/wait/quick.h"

static inline bool is_ready(const struct inet_sock *so)
{
	return sock_life_is(so, LIFE_RECEIVING);
}

/*
 * Through shared memory only by a destination of a socket whose home is local_ring(): others have no target
 * that is valid here (local_target.c, BESIDE).
 */
QUICK_INLINE ssize_t send_at_once(struct inet_sock *so, const void *buf, size_t len,
				  const struct sockaddr_in *to)
{
	struct dst *dst = to ? udp_find_plain4(so, to) : &so->udp.dst;
	struct local_target *t;

	if (!dst || dst->generation != netlink_generation() || so->shut_wr ||
	    !udp_sends_plainly(so))
		return -EAGAIN;
	if (dst->verdict != VERDICT_LOCAL)
		return to || so->udp.connected ? udp_send_at_once(so, dst, buf, len) : -EAGAIN;
	t = local_target_of(&dst->local);
	if (!t || record_ring_write_at_once(&t->writer, dst_local_header(dst), buf, len))
		return -EAGAIN;
	notice_post(&t->end.link->out, t->end.number);
	udp_count_sent(so, len);
	return (ssize_t)len;
}

static __attribute__((noinline)) bool hears6(const struct local_udp *l, const struct inet_sock *so,
					     const struct record_seen *seen)
{
	struct record_header header = record_ring_seen_header(seen);

	return local_hears_record(l, so, &header);
}

/* As local_hears_record(). */
static inline bool hears(const struct local_udp *l, const struct inet_sock *so,
			 const struct record_seen *seen)
{
	if (!so->udp.connected)
		return true;
	if (__builtin_expect(so->family != AF_INET, 0))
		return hears6(l, so, seen);
	return __atomic_load_n(&seen->at->from_port, __ATOMIC_RELAXED) == so->remote.port &&
	       __atomic_load_n(&seen->at->from, __ATOMIC_RELAXED) == addr_v4_of(&so->remote.addr);
}

/* The sender, whom the program asks for.  False: it cannot be told, or is not heard. */
static inline bool tell_sender(const struct local_udp *l, const struct inet_sock *so,
			       const struct record_seen *seen, struct sockaddr_in *from)
{
	struct record_header header = record_ring_seen_header(seen);

	*from = (struct sockaddr_in){.sin_family = AF_INET,
				     .sin_port = header.from_port,
				     .sin_addr.s_addr = header.from};
	return local_hears_record(l, so, &header) && local_is_possible(l, &header);
}

/*
 * A datagram that the socket does not hear, or whose sender is told and cannot be, is for the other way,
 * which drops it.
 */
QUICK_INLINE ssize_t recv_at_once(struct inet_sock *so, void *buf, size_t len,
				  struct sockaddr_in *from)
{
	struct local_udp *l = so->udp.local;
	struct record_seen seen;
	ssize_t n;

	if (so->udp.head || so->noted | so->told || !l || !l->segment.base ||
	    (from && so->family != AF_INET))
		return -EAGAIN;
	if (__builtin_expect(!record_ring_look_at_once(&l->reader, &seen), 0))
		return record_ring_is_quiet(&l->reader) ? QUICK_NOTHING : -EAGAIN;
	/* What is cut off, recvmsg(2) tells. */
	if (__builtin_expect(seen.len > len, 0) ||
	    __builtin_expect(!(from ? tell_sender(l, so, &seen, from) : hears(l, so, &seen)), 0))
		return -EAGAIN;
	n = record_ring_take_at_once(&l->reader, &seen, buf, len);
	if (__builtin_expect(n >= 0, 1))
		udp_count_in(so, 1, (uint32_t)seen.len);
	return n;
}

/* The receives are not for a socket that has got nothing of a local sender lately (local_turn.c). */
#define X(name, mode)                                                        \
	QUICK_CALLS(local_udp_quick, name, mode, sizeof(struct sockaddr_in)) \
	QUICK_LOOK(local_udp_quick, name, mode, true, udp_recv)
SOCK_MODES(X)
#undef X

ssize_t local_udp_look(struct sock_ref ref, struct msghdr *msg, int flags, enum hold_mode mode)
{
	static ssize_t (*const looks[HOLD_MODES])(struct sock_ref, struct msghdr *, int) = {
#define X(name, mode) [mode] = local_udp_quick_look_##name,
		SOCK_MODES(X)
#undef X
	};

	return looks[mode](ref, msg, flags);
}
