/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending datagrams.  The code is written once and instantiated for each thread mode.
 */
#include <errno.h>

#include "base/mem.h"
#include "base/param.h"
#include "base/sys.h"
#include "sock/core/access.h"
#include "sock/core/extra/message.h"
#include "sock/core/msg/family.h"
#include "sock/core/msg/iov.h"
#include "sock/core/rules/rules.h"
#include "sock/core/rules/strict.h"
#include "sock/core/stats/sock_stats.h"
#include "sock/udp/udp_pace.h"
#include "sock/udp/udp_sock.h"
#include "sock/wait/wait.h"

#define SEND_SPECIAL (MSG_OOB | MSG_MORE | VMA_SND_FLAGS_DUMMY)

static uint64_t hash_endpoint(const struct endpoint *ep)
{
	return (ep->addr.q[0] ^ ep->addr.q[1] ^ endpoint_word(ep)) * 0x9e3779b97f4a7c15ull;
}

_Static_assert(UDP_DST_CACHE == 256, "the top eight bits choose an entry");

static inline struct dst *cached(const struct inet_sock *so, const struct endpoint *to)
{
	struct udp_dst *entry;

	if (!so->udp.cache)
		return NULL;
	entry = so->udp.cache[hash_endpoint(to) >> 56];
	return entry && endpoint_eq(&entry->to, to) ? &entry->dst : NULL;
}

struct dst *udp_find_plain(struct inet_sock *so, const struct endpoint *to)
{
	return so->udp.connected && endpoint_eq(&so->remote, to) ? &so->udp.dst : cached(so, to);
}

/* holder: the cache entry for a destination, replaced if it was another one; NULL: no memory. */
static struct dst *cache_slot(struct inet_sock *so, const struct endpoint *to)
{
	struct udp_dst **slot;

	if (!so->udp.cache)
		so->udp.cache = mem_zalloc(UDP_DST_CACHE * sizeof(struct udp_dst *));
	if (!so->udp.cache)
		return NULL;
	slot = &so->udp.cache[hash_endpoint(to) >> 56];
	if (!*slot) {
		*slot = mem_zalloc(sizeof(**slot));
		if (*slot)
			dst_init(&(*slot)->dst);
	}
	return *slot ? &(*slot)->dst : NULL;
}

struct udp_way udp_plain_way(const struct inet_sock *so, const struct endpoint *to)
{
	struct udp_way way = {
		.to = *to,
		.src = so->bound_addr || so->udp.connected ? so->local.addr : addr_v4_any(),
		.tos = options_tos(so->opt, &to->addr),
		.ttl = addr_is_multicast(&to->addr) ? options_mc_ttl(so->opt, &to->addr)
						    : options_ttl(so->opt, &to->addr),
		.ttl_set = addr_is_multicast(&to->addr) || options_ttl_set(so->opt, &to->addr),
		.plain = true,
	};

	return way;
}

/* The interface, as far as the call and the options for datagrams of IPv6 name it; or 0. */
static int way_oif(const struct inet_sock *so, const struct udp_way *way)
{
	if (way->oif)
		return way->oif;
	return addr_is_multicast(&way->to.addr) ? so->opt->mc_ifindex6 : so->opt->uc_ifindex6;
}

/* To a group: IP_MULTICAST_IF has an address, and counts more than the device. */
static void query_group(const struct inet_sock *so, const struct inaddr *group,
			struct dst_query *query)
{
	if (addr_is_multicast(&query->src))
		query->src = addr_v4_any();
	if (!addr_is_v4(group)) {
		if (!query->oif)
			query->oif = so->opt->mc_ifindex6;
		return;
	}
	if (so->opt->mc_ifindex)
		query->oif = so->opt->mc_ifindex;
	if (addr_is_any(&query->src) && !addr_is_any(&so->opt->mc_addr))
		query->src = so->opt->mc_addr;
}

static struct dst_query query_for(const struct inet_sock *so, const struct udp_way *way)
{
	struct dst_query query = sock_way_query(so, &way->to, way->src);

	query.tos = way->tos;
	query.mc_loop = so->opt->mc_loop;
	if (addr_is_multicast(&way->to.addr))
		query_group(so, &way->to.addr, &query);
	if (way->oif)
		query.oif = way->oif;
	return query;
}

static struct dst_headers udp_headers(const struct inet_sock *so, const struct udp_way *way)
{
	struct dst_headers headers = {
		.src = {.addr = query_for(so, way).src, .port = so->local.port},
		.proto = IPPROTO_UDP,
		.ttl = way->ttl,
		.ttl_set = way->ttl_set,
		.tos = way->tos,
		.no_csum = so->opt->no_check,
		.no_label = so->opt->no_label6,
	};

	return headers;
}

/* holder of home: the place for a way, whether it was found already or not; NULL: no memory. */
static struct dst *dst_for(struct inet_sock *so, const struct udp_way *way)
{
	if (!way->plain)
		return udp_way_slot(so, way);
	return so->udp.connected && endpoint_eq(&way->to, &so->remote) ? &so->udp.dst
								       : cache_slot(so, &way->to);
}

/*
 * Control lock, holding home: the destination's datagrams left by another ring until now.
 * Those that were posted to it go first.  Meanwhile no thread sends, because the
 * destination is not fresh.
 */
static int settle_old_ring(struct sock_ref ref, struct ring **home, struct ring *old)
{
	ring_release_cold(*home);
	if (ring_hold_cold(old))
		ring_release_cold(old);
	return sock_hold_cold(ref, home);
}

/* The twin sends there. */
static void by_kernel(struct dst_found *found, enum verdict reason)
{
	memset(found, 0, sizeof(*found));
	found->generation = netlink_generation();
	found->verdict = reason;
}

/*
 * Control lock: where the way leads.  0; SOCK_KERNEL: the kernel serves the socket from now on;
 * or -errno.
 */
static int find_way(struct inet_sock *so, const struct udp_way *way, struct dst_found *found)
{
	enum conf_says says = rules_ask(so, CONF_UDP_SENDER, &way->to, NULL);
	struct dst_query query;
	enum verdict verdict;
	int rc;

	if (says == CONF_OS) {
		by_kernel(found, VERDICT_RULE);
		return 0;
	}
	if (addr_is_multicast(&way->to.addr) && !way->ttl) { /* it stays on this host */
		by_kernel(found, VERDICT_LOOPBACK);
		return 0;
	}
	verdict = sock_start_for(so);
	if (verdict != VERDICT_ACCELERATED) {
		rc = strict_check(so, says, verdict);
		rc = rc ? rc : sock_leave(so, verdict);
		return rc ? rc : SOCK_KERNEL;
	}
	if (!sock_may_reach(so, &way->to, way_oif(so, way))) {
		by_kernel(found, VERDICT_FAMILY);
		return strict_check(so, says, VERDICT_FAMILY);
	}
	query = query_for(so, way);
	sock_tx_query(so, &query);
	dst_find(&query, found);
	if (found->verdict == VERDICT_LOOPBACK && params.local)
		return sock_upcalls.local_find(so, way, found);
	return strict_check(so, says, found->verdict);
}

/* Control lock: a socket that sends has a port, and a home.  0 or -errno. */
static int begin_sending(struct inet_sock *so, const struct dst_found *found)
{
	int rc = 0;

	if (found->verdict != VERDICT_ACCELERATED)
		return 0;
	if (sock_life_is(so, LIFE_OPEN))
		rc = udp_autobind(so);
	/* A socket that receives nowhere may still send. */
	if (!rc && sock_home(so) == rings_nowhere())
		sock_adopt_home(so, sock_rx_ring_beside(so, found->ring));
	return rc;
}

int udp_resolve(struct sock_ref ref, const struct udp_way *wanted)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct udp_way way = *wanted;
	struct dst_found found;
	struct dst_headers headers;
	struct ring *ring;
	struct dst *dst;
	int rc;

	if (!way.to.port)
		return SOCK_KERNEL; /* EINVAL */
	if (!control_lock())
		return -EAGAIN;
	rc = -EBADF;
	if (!sock_ref_valid(ref))
		goto unlock;
	if (way.plain)
		way = udp_plain_way(so, &way.to); /* the options as they are now */
	rc = find_way(so, &way, &found);
	if (rc)
		goto unlock;
	if (so->verdict == VERDICT_UNDECIDED) {
		so->verdict = found.verdict;
		if (found.verdict != VERDICT_ACCELERATED)
			sock_stats_verdict(so);
	}
	rc = begin_sending(so, &found);
	if (!rc)
		rc = sock_hold_cold(ref, &ring);
	if (rc)
		goto unlock;
	dst = dst_for(so, &way);
	if (dst && dst->ring && dst->ring != ring && dst->ring != found.ring) {
		rc = settle_old_ring(ref, &ring, dst->ring);
		if (rc)
			goto unlock;
		dst = dst_for(so, &way);
	}
	headers = udp_headers(so, &way);
	rc = dst ? dst_apply(dst, ring, &way.to, &found, &headers) : -ENOMEM;
	if (!rc && !way.plain)
		container_of(dst, struct udp_dst, dst)->way = way;
	else if (!rc && dst != &so->udp.dst)
		container_of(dst, struct udp_dst, dst)->to = way.to;
	ring_release_cold(ring);
	if (!rc)
		dst_resolve_neighbour(&found);
unlock:
	control_unlock();
	if (rc != -EINPROGRESS)
		return rc;
	sock_upcalls.local_await(ref, &way.to, &found.local);
	return 0;
}

int udp_tx_ring(struct inet_sock *so, const struct sockaddr *to, socklen_t len, struct ring **ring)
{
	struct dst_found found;
	struct dst_query query;
	struct udp_way way;
	struct endpoint ep;

	control_assert_held();
	if (!sock_addr_read(so, &ep, to, len))
		return -EINVAL;
	way = udp_plain_way(so, &ep);
	if (!sock_may_reach(so, &ep, way_oif(so, &way)) ||
	    rules_ask(so, CONF_UDP_SENDER, &ep, NULL) == CONF_OS ||
	    sock_start_for(so) != VERDICT_ACCELERATED)
		return -ENODATA;
	query = query_for(so, &way);
	sock_tx_query(so, &query);
	dst_find(&query, &found);
	*ring = found.ring;
	return found.verdict == VERDICT_ACCELERATED ? 0 : -ENODATA;
}

/* For sends without control messages. */
static __attribute__((noinline)) int resolve(struct sock_ref ref, const struct endpoint *to)
{
	struct udp_way way = {.to = *to, .plain = true};

	return udp_resolve(ref, &way);
}

int udp_twin_error(struct inet_sock *so)
{
	int error = 0;
	socklen_t len = sizeof(error);

	sock_look_at_twin(&so->sk);
	if (!(__atomic_load_n(&so->sk.twin_events, __ATOMIC_RELAXED) & EPOLLERR))
		return 0;
	return sys_getsockopt(sock_twin(&so->sk), SOL_SOCKET, SO_ERROR, &error, &len) ? 0 : error;
}

/* Unusual calls.  SEND_ON: the call is an ordinary one after all. */
#define SEND_ON (SOCK_KERNEL - 1)
static __attribute__((noinline)) ssize_t send_unusual(struct sock_ref ref, const struct msghdr *msg,
						      int flags, const struct inet_sock *so)
{
	bool dummy = sock_is_dummy(flags);
	unsigned special = UDP_BUILDS | (dummy ? 0 : UDP_PACED | UDP_STAMPED);
	int rc;

	if ((flags & SEND_SPECIAL & ~VMA_SND_FLAGS_DUMMY) || msg->msg_controllen ||
	    (__atomic_load_n(&so->udp.special, __ATOMIC_RELAXED) & special))
		return dummy ? -EINVAL : udp_send_special(ref, msg, flags);
	if (dummy) /* a first send would bind it; an error in the twin is not for this call */
		return sock_life_is(so, LIFE_OPEN) ? -EINVAL : SEND_ON;
	rc = udp_twin_error(inet_of(ref.sk));
	return rc ? -rc : SEND_ON;
}

/* holder: the data cannot be read from the program's memory. */
static __attribute__((noinline, cold)) ssize_t unreadable(struct pkt *pkt)
{
	pkt_free(pkt);
	return -EFAULT;
}

/* What has to happen before the next try, holding no ring. */
enum send_aside {
	ASIDE_FRAME,   /* no frame was free */
	ASIDE_RESOLVE, /* the destination has to be found */
	ASIDE_TWIN, /* it ends the call: local_by_twin() with phase 0; the next one: with phase 1 */
};

struct send {
	struct sock_ref ref;
	const struct msghdr *msg;
	size_t len;
	struct endpoint *to; /* msg_name; or so->remote, to resolve it */
	unsigned aside;	     /* enum send_aside */
	bool dummy;	     /* nothing leaves, and nothing is counted */
	int flags;
	int tries;
};

/*
 * holder: an empty frame.  NULL: no frame is free, or *n is the result of a send in
 * fragments.
 */
static inline __attribute__((always_inline)) struct pkt *frame_for(const struct send *s,
								   struct inet_sock *so,
								   struct ring *ring,
								   struct dst *dst, ssize_t *n)
{
	*n = -ENOBUFS;
	if (__builtin_expect(s->len <= dst->payload_max, 1))
		return ring_tx_get(ring);
	*n = s->dummy ? -EMSGSIZE : udp_send_fragments(so, ring, dst, s->msg->msg_iov, s->len);
	return NULL;
}

/*
 * holder: to a receiver on this host, or by the kernel.  -ESTALE: the destination is not valid;
 * SOCK_TRY_ASIDE - n: send.aside is ASIDE_TWIN + n.
 */
static __attribute__((noinline, cold)) ssize_t send_without_ring(struct inet_sock *so,
								 struct dst *dst,
								 const struct msghdr *msg,
								 size_t len, bool dummy)
{
	int phase = SOCK_KERNEL; /* only the kernel reaches it */

	if (dst->verdict == VERDICT_LOCAL)
		return dummy ? -EINVAL : sock_upcalls.local_send(so, dst, msg, len);
	if (!dummy && so->udp.local)
		phase = sock_upcalls.local_by_kernel(so, dst);
	if (phase == -ESTALE)
		return phase;
	if (!dummy)
		sock_stats_twin_send(so, len);
	return phase < 0 ? SOCK_KERNEL : SOCK_TRY_ASIDE - phase;
}

static inline __attribute__((always_inline)) bool send_try(void *arg, struct ring *ring,
							   struct sock_wait *wait, ssize_t *n)
{
	struct send *s = arg;
	struct inet_sock *so = inet_of(s->ref.sk);
	const struct msghdr *msg = s->msg;
	struct dst *dst;
	struct pkt *pkt;

	(void)wait;
	if (msg->msg_name)
		dst = so->udp.connected && endpoint_eq(&so->remote, s->to) ? &so->udp.dst
									   : cached(so, s->to);
	else
		dst = so->udp.connected ? &so->udp.dst : NULL;
	*n = SOCK_KERNEL;
	if (__builtin_expect(so->shut_wr || (!dst && !msg->msg_name), 0))
		return true; /* EPIPE, EDESTADDRREQ */
	s->aside = !dst || !dst_fresh(dst) ? ASIDE_RESOLVE : ASIDE_FRAME;
	if (__builtin_expect(!s->aside && !dst->ring, 0)) {
		*n = send_without_ring(so, dst, msg, s->len, s->dummy);
		if (*n <= SOCK_TRY_ASIDE) {
			s->aside = ASIDE_TWIN + (unsigned)(SOCK_TRY_ASIDE - *n);
			*n = SOCK_TRY_ASIDE;
			return false;
		}
		if (*n != -ESTALE)
			return true;
		s->aside = ASIDE_RESOLVE;
	}
	if (__builtin_expect(s->aside, 0)) {
		if (!msg->msg_name)
			*s->to = so->remote;
		*n = SOCK_TRY_ASIDE;
		return false;
	}
	pkt = frame_for(s, so, ring, dst, n);
	if (__builtin_expect(!pkt, 0)) {
		if (*n != -ENOBUFS)
			return true;
		ring_poll(ring); /* sent frames come back */
		*n = SOCK_TRY_ASIDE;
		return false;
	}
	pkt->frame_len = (uint32_t)frame_build_udp(&dst->tmpl, pkt->frame, msg->msg_iov,
						   (int)msg->msg_iovlen, s->len);
	if (__builtin_expect(s->dummy, 0)) {
		*n = pkt->frame_len ? (ssize_t)s->len : -EFAULT;
		pkt_free(pkt);
		return true;
	}
	if (__builtin_expect(pkt->frame_len == 0, 0)) {
		sock_count(so, tx_errors, 1);
		*n = unreadable(pkt);
		return true;
	}
	dst_send(dst, ring, pkt);
	udp_count_sent(so, s->len);
	sock_access_tx(so);
	*n = (ssize_t)s->len;
	return true;
}

/* The kernel makes the call, and all later ones to this host; see by_twin(). */
static __attribute__((noinline, cold)) ssize_t to_kernel(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;

	if (params.local && !sock_hold_cold(ref, &ring)) {
		if (so->udp.local)
			sock_upcalls.local_send_stop(so);
		ring_release_cold(ring);
	}
	return SOCK_KERNEL;
}

/* Resolves the destination; or, if that was fresh, no frame was free. */
static inline __attribute__((always_inline)) ssize_t send_aside(void *arg, struct sock_wait *wait)
{
	struct send *s = arg;
	int rc;

	if (s->aside >= ASIDE_TWIN)
		return sock_upcalls.local_by_twin(s->ref, s->msg, s->flags,
						  (int)(s->aside - ASIDE_TWIN));
	if (s->aside == ASIDE_FRAME) {
		if (s->dummy)
			return -EAGAIN;
		if (wait->dontwait && !sock_wait_is_over(wait))
			return params.tx_nonblocked_eagains ? -EAGAIN : (ssize_t)s->len;
		return SOCK_TRY_WAIT;
	}
	if (++s->tries > UDP_RESOLVE_TRIES)
		return to_kernel(s->ref);
	rc = resolve(s->ref, s->to);
	return rc ? rc : SOCK_TRY_AGAIN;
}

static inline __attribute__((always_inline)) ssize_t
send_mode(struct sock_ref ref, const struct msghdr *msg, int flags, enum hold_mode mode)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct sock_call call = SOCK_CALL(ref, flags, EPOLLOUT);
	struct endpoint to;
	struct send s = {.ref = ref,
			 .msg = msg,
			 .len = iov_total(msg->msg_iov, msg->msg_iovlen),
			 .to = &to,
			 .dummy = sock_is_dummy(flags),
			 .flags = flags};

	if (__builtin_expect((flags & SEND_SPECIAL) || msg->msg_controllen ||
				     __atomic_load_n(&so->udp.special, __ATOMIC_RELAXED) ||
				     (__atomic_load_n(&ref.sk->twin_events, __ATOMIC_RELAXED) &
				      EPOLLERR),
			     0)) {
		ssize_t n = send_unusual(ref, msg, flags, so);

		if (n != SEND_ON)
			return n;
	}
	if (msg->msg_name && !sock_addr_read(so, &to, msg->msg_name, msg->msg_namelen))
		return to_kernel(ref); /* it knows the right error, or what the address means */
	return sock_wait_loop(call, mode, send_try, send_aside, &s);
}

#define X(name, mode)                                                                     \
	ssize_t udp_send_##name(struct sock_ref ref, const struct msghdr *msg, int flags) \
	{                                                                                 \
		return send_mode(ref, msg, flags, mode);                                  \
	}
SOCK_MODES(X)
#undef X

/* ---- batches (vma.h) ---------------------------------------------------------------------- */

struct batch_send {
	struct send s; /* first; of the next message */
	struct msghdr msg;
	struct iovec iov;
	struct endpoint to;
	struct vma_message_t *messages;
	unsigned count, done;
};

/* The next message, if there is one.  False: only sock_ops.send knows what its address means. */
static bool next_message(struct batch_send *b)
{
	const struct vma_message_t *m = &b->messages[b->done];

	if (b->done == b->count)
		return true;
	b->msg = message_header(m, &b->iov);
	b->s.len = m->size;
	b->s.tries = 0;
	return !m->addr || sock_addr_read(inet_of(b->s.ref.sk), &b->to, m->addr, m->addr_len);
}

/* The message was sent, or that is what the program is told.  False: the batch ends. */
static bool next(struct batch_send *b, ssize_t *n)
{
	b->messages[b->done++].done = (size_t)*n;
	*n = next_message(b) ? 0 : SOCK_KERNEL;
	return !*n && b->done < b->count;
}

static inline __attribute__((always_inline)) bool batch_try(void *arg, struct ring *ring,
							    struct sock_wait *wait, ssize_t *n)
{
	struct batch_send *b = arg;

	while (send_try(&b->s, ring, wait, n)) {
		if (*n < 0 || !next(b, n))
			return true;
		if (!sock_at_home(b->s.ref, ring)) {
			*n = SOCK_TRY_AGAIN; /* a local send has let the ring go meanwhile */
			return false;
		}
	}
	return false;
}

static inline __attribute__((always_inline)) ssize_t batch_aside(void *arg, struct sock_wait *wait)
{
	struct batch_send *b = arg;
	ssize_t n = send_aside(&b->s, wait);

	return n < 0 || !next(b, &n) ? n : SOCK_TRY_AGAIN;
}

int udp_send_batch(struct sock_ref ref, struct vma_message_t *messages, unsigned count, int flags,
		   unsigned *done)
{
	struct sock_call call = SOCK_CALL(ref, flags, EPOLLOUT);
	struct batch_send b = {
		.s = {.ref = ref, .flags = flags}, .messages = messages, .count = count};
	ssize_t n = SOCK_KERNEL;

	b.s.msg = &b.msg;
	b.s.to = &b.to;
	if (!__atomic_load_n(&inet_of(ref.sk)->udp.special, __ATOMIC_RELAXED) &&
	    !(__atomic_load_n(&ref.sk->twin_events, __ATOMIC_RELAXED) & EPOLLERR) &&
	    next_message(&b))
		n = sock_wait_loop(call, SOCK_WAIT_COLD, batch_try, batch_aside, &b);
	*done = b.done;
	return (int)n;
}
