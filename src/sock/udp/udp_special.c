/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends that are more than one datagram to one destination: with control messages, cut
 * into segments (UDP_SEGMENT, udp_segments.c), put together from several calls (MSG_MORE, UDP_CORK), or stamped.
 * The twin has the same options, so the rest, errors included, is left to it.  Nothing is
 * sent twice: a call that is left to the twin has sent nothing here.
 */
#include <errno.h>

#include "base/mem.h"
#include "base/param.h"
#include "base/sys.h"
#include "base/user.h"
#include "sock/core/access.h"
#include "sock/core/msg/cmsg.h"
#include "sock/core/msg/family.h"
#include "sock/core/msg/iov.h"
#include "sock/core/rules/strict.h"
#include "sock/udp/udp_pace.h"
#include "sock/udp/udp_sock.h"
#include "sock/wait/wait.h"

#define CALL_MAX 0xffff /* bytes; EMSGSIZE */

/* What step() returns beside the result of the call. */
enum {
	STEP_RESOLVE = SOCK_KERNEL - 1,	  /* send.way has to be resolved */
	STEP_NO_FRAMES = SOCK_KERNEL - 2, /* nothing was sent */
	STEP_FORBIDDEN = SOCK_KERNEL - 3, /* only the kernel could: see strict.h */
	STEP_FULL = SOCK_KERNEL - 4,	  /* udp_pace_full(): nothing was sent */
};

struct send {
	struct sock_ref ref;
	const struct msghdr *msg; /* NULL: UDP_CORK was cleared */
	int flags;
	size_t len;
	bool looked;   /* at the control messages */
	bool readable; /* all of them are supported here */
	bool added; /* the data was added to the pending datagram: the kernel cannot make the call any more */
	struct cmsg_sent sent;
	struct udp_way way;
	ssize_t step; /* STEP_*: result of the last try */
	int tries;    /* to resolve the way */
};

void udp_note_special(struct inet_sock *so)
{
	bool builds = so->udp.pending != UDP_PENDING_NOT || so->opt->cork || so->opt->gso_size;
	unsigned special = (builds ? UDP_BUILDS : 0) | (udp_is_paced(so) ? UDP_PACED : 0) |
			   (so->opt->tx_stamps ? UDP_STAMPED : 0);

	__atomic_store_n(&so->udp.special, (uint8_t)special, __ATOMIC_RELAXED);
}

static void set_pending(struct inet_sock *so, enum udp_pending pending)
{
	so->udp.pending = pending;
	udp_note_special(so);
}

/* ---- ways (holder) ----------------------------------------------------------------------- */

static struct udp_rare *rare_of(struct inet_sock *so)
{
	if (!so->udp.rare)
		so->udp.rare = mem_zalloc(sizeof(*so->udp.rare));
	return so->udp.rare;
}

void udp_rare_free(struct inet_sock *so)
{
	struct udp_rare *rare = so->udp.rare;

	if (!rare)
		return;
	for (int i = 0; i < UDP_DST_CACHE; i++)
		mem_free(rare->ways[i]);
	mem_free(rare->pending);
	mem_free(rare);
	so->udp.rare = NULL;
	if (so->udp.pending == UDP_PENDING_HERE)
		set_pending(so, UDP_PENDING_NOT);
}

static bool same_way(const struct udp_way *a, const struct udp_way *b)
{
	return endpoint_eq(&a->to, &b->to) && addr_eq(&a->src, &b->src) && a->oif == b->oif &&
	       a->tos == b->tos && a->ttl == b->ttl && a->ttl_set == b->ttl_set;
}

static unsigned place_of(const struct udp_way *way)
{
	uint64_t hash = way->to.addr.q[1] ^ way->src.q[1] ^ way->to.port ^
			((uint64_t)way->tos << 24 | (uint64_t)way->ttl << 16) ^
			(uint64_t)(unsigned)way->oif << 40;

	return (unsigned)((hash * 0x9e3779b97f4a7c15ull) >> 56);
}

/* NULL: it was not resolved yet. */
static struct dst *find_way(struct inet_sock *so, const struct udp_way *way)
{
	struct udp_dst *entry;

	if (way->plain)
		return udp_find_plain(so, &way->to);
	entry = so->udp.rare ? so->udp.rare->ways[place_of(way)] : NULL;
	return entry && same_way(&entry->way, way) ? &entry->dst : NULL;
}

struct dst *udp_way_slot(struct inet_sock *so, const struct udp_way *way)
{
	struct udp_rare *rare = rare_of(so);
	struct udp_dst **slot;

	if (!rare)
		return NULL;
	slot = &rare->ways[place_of(way)];
	if (!*slot) {
		*slot = mem_zalloc(sizeof(**slot));
		if (*slot)
			dst_init(&(*slot)->dst);
	}
	return *slot ? &(*slot)->dst : NULL;
}

/* An interface that contradicts the scope or the device: EINVAL for IPv6, IPv4 has no such rule. */
static bool contradicts(const struct inet_sock *so, const struct endpoint *to, int oif)
{
	int named = to->scope ? (int)to->scope : so->opt->bind_ifindex;

	return oif && named && oif != named && !addr_is_v4(&to->addr);
}

/* False: the call names no destination, or one for which the kernel knows the error. */
static bool choose_way(struct send *s, const struct inet_sock *so)
{
	const struct cmsg_sent *sent = &s->sent;
	struct endpoint to = so->remote;

	if (s->msg->msg_name ? !sock_addr_read(so, &to, s->msg->msg_name, s->msg->msg_namelen)
			     : !so->udp.connected)
		return false;
	if (sent->pktinfo && contradicts(so, &to, sent->oif))
		return false;
	s->way = udp_plain_way(so, &to);
	if (sent->pktinfo) {
		s->way.src = sent->src;
		s->way.oif = sent->oif;
	}
	if (sent->tos >= 0)
		s->way.tos = (uint8_t)sent->tos;
	if (sent->ttl)
		s->way.ttl = sent->ttl;
	s->way.ttl_set |= sent->ttl != 0;
	s->way.plain = !sent->pktinfo && sent->tos < 0 && !sent->ttl;
	return true;
}

/* ---- putting frames (holder) ------------------------------------------------------------------ */

/* Bytes, STEP_NO_FRAMES, STEP_FULL, or SOCK_KERNEL. */
static ssize_t put(struct inet_sock *so, struct ring *ring, struct dst *dst,
		   const struct iovec *iov, size_t iovcnt, size_t len, size_t gso)
{
	struct pkt *pkt;
	ssize_t n;

	if (udp_pace_full(so))
		return STEP_FULL;
	if (gso && len > gso) {
		n = udp_send_segments(so, ring, dst, iov, iovcnt, len, gso);
		return n == -ENOBUFS ? STEP_NO_FRAMES : n;
	}
	if (len > dst->payload_max) {
		n = udp_send_fragments(so, ring, dst, iov, len);
		return n == -ENOBUFS ? STEP_NO_FRAMES : n;
	}
	pkt = ring_tx_get(ring);
	if (!pkt)
		return STEP_NO_FRAMES;
	pkt->frame_len = (uint32_t)frame_build_udp(&dst->tmpl, pkt->frame, iov, (int)iovcnt, len);
	if (!pkt->frame_len) {
		pkt_free(pkt);
		return -EFAULT;
	}
	udp_put(so, ring, dst, pkt);
	udp_count_sent(so, len);
	return (ssize_t)len;
}

/* ---- a datagram in the making (holder) ------------------------------------------------------------ */

static void discard(struct inet_sock *so)
{
	struct udp_rare *rare = so->udp.rare;

	mem_free(rare->pending);
	rare->pending = NULL;
	rare->pending_len = rare->pending_room = 0;
	set_pending(so, UDP_PENDING_NOT);
}

/*
 * 0, -EMSGSIZE, -ENOMEM, -EFAULT: after an error the whole datagram is discarded, as by
 * the kernel.
 */
static int add_piece(struct inet_sock *so, const struct msghdr *msg, size_t len)
{
	struct udp_rare *rare = so->udp.rare;
	size_t need = rare->pending_len + len, room = 2 * need;
	int rc = -EMSGSIZE;
	char *more;

	if (need > rare->pending_max)
		goto gone;
	if (need > rare->pending_room) {
		rc = -ENOMEM;
		more = mem_alloc(room);
		if (!more)
			goto gone;
		if (rare->pending_len)
			memcpy(more, rare->pending, rare->pending_len);
		mem_free(rare->pending);
		rare->pending = more;
		rare->pending_room = (uint32_t)room;
	}
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		if (!msg->msg_iov[i].iov_len)
			continue;
		rc = -EFAULT;
		if (!user_copy(rare->pending + rare->pending_len, msg->msg_iov[i].iov_base,
			       msg->msg_iov[i].iov_len))
			goto gone;
		rare->pending_len += (uint32_t)msg->msg_iov[i].iov_len;
	}
	return 0;

gone:
	discard(so);
	return rc;
}

static ssize_t begin(struct send *s, struct inet_sock *so, const struct dst *dst, uint16_t gso)
{
	struct udp_rare *rare = rare_of(so);
	bool whole = !gso && udp_never_fragments(so, dst);
	uint32_t max = whole ? dst->payload_max : UDP_PAYLOAD_MAX;
	int rc;

	if (!rare)
		return -ENOMEM;
	if (s->len > max)
		return SOCK_KERNEL; /* EMSGSIZE */
	rare->pending_way = s->way;
	rare->pending_max = max;
	rare->pending_gso = gso;
	set_pending(so, UDP_PENDING_HERE);
	rc = add_piece(so, s->msg, s->len);
	return rc ? rc : (ssize_t)s->len;
}

/* The last resort: only the kernel reaches the destination now. */
static ssize_t push_by_twin(struct inet_sock *so, int flags)
{
	struct udp_rare *rare = so->udp.rare;
	struct sock_addr to = sock_addr_of(so, &rare->pending_way.to);
	struct iovec iov = {rare->pending, rare->pending_len};
	struct msghdr msg = {
		.msg_name = &to.sa, .msg_namelen = to.len, .msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	n = sys_sendmsg(sock_twin(&so->sk), &msg, flags | MSG_DONTWAIT | MSG_NOSIGNAL);
	discard(so);
	return n;
}

/* The pending datagram is complete. */
static ssize_t push(struct send *s, struct inet_sock *so, struct ring *ring)
{
	struct udp_rare *rare = so->udp.rare;
	struct iovec iov = {rare->pending, rare->pending_len};
	struct dst *dst = find_way(so, &rare->pending_way);
	uint16_t gso = rare->pending_gso;
	ssize_t n;

	if (!dst || !dst_fresh(dst)) {
		s->way = rare->pending_way;
		return STEP_RESOLVE;
	}
	if (!dst->ring) {
		if (so->udp.local)
			sock_upcalls.local_send_stop(so);
		n = push_by_twin(so, 0);
		return n < 0 ? n : (ssize_t)s->len;
	}
	n = -EMSGSIZE;
	if (udp_segments_fit(so, dst, iov.iov_len, gso))
		n = put(so, ring, dst, &iov, 1, iov.iov_len, gso);
	else if (gso && iov.iov_len > (size_t)gso * UDP_SEGMENTS_MAX)
		n = -EINVAL;
	if (n == STEP_NO_FRAMES || n == STEP_FULL)
		return n;
	discard(so);
	if (n == SOCK_KERNEL)
		n = -EMSGSIZE;
	return n < 0 ? n : (ssize_t)s->len;
}

/* From the second piece on, address and control messages are ignored. */
static ssize_t add(struct send *s, struct inet_sock *so, struct ring *ring, bool more)
{
	int rc;

	if (!s->added && s->len > CALL_MAX)
		return -EMSGSIZE;
	if (s->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (!s->added && so->shut_wr) {
		discard(so);
		return -EPIPE;
	}
	rc = s->added ? 0 : add_piece(so, s->msg, s->len);
	if (rc)
		return rc;
	s->added = true;
	return more ? (ssize_t)s->len : push(s, so, ring);
}

/* ---- the call -------------------------------------------------------------------------------- */

/*
 * holder: the kernel makes the call, and continues what the call begins.  Later datagrams must not
 * overtake it through shared memory.
 */
static ssize_t by_twin(struct inet_sock *so, bool more)
{
	if (so->udp.local)
		sock_upcalls.local_send_stop(so);
	set_pending(so, more ? UDP_PENDING_TWIN : UDP_PENDING_NOT);
	return SOCK_KERNEL;
}

/* holder */
static void read_control(struct send *s, const struct inet_sock *so)
{
	struct endpoint to = so->remote;
	enum cmsg_to kind = CMSG_INET;

	if (s->looked)
		return;
	s->looked = true;
	if (s->msg->msg_name)
		sock_addr_read(so, &to, s->msg->msg_name, s->msg->msg_namelen);
	if (so->family == AF_INET6)
		kind = addr_is_v4(&to.addr) ? CMSG_INET6_TO_IPV4 : CMSG_INET6;
	s->readable = cmsg_read_sent(s->msg, kind, &s->sent);
}

/* holder: the result of the call, or STEP_*. */
static ssize_t step(struct send *s, struct inet_sock *so, struct ring *ring)
{
	bool more = so->opt->cork || (s->flags & MSG_MORE);
	struct dst *dst;
	uint16_t gso;

	if (so->udp.pending == UDP_PENDING_HERE)
		return add(s, so, ring, more);
	if (s->added)
		return (ssize_t)s->len; /* another thread's call has sent it */
	read_control(s, so);
	if (so->udp.pending == UDP_PENDING_TWIN || (s->flags & MSG_OOB) || so->shut_wr ||
	    so->opt->tx_stamps || /* the kernel stamps what it sends */
	    (!s->readable && !strict_forbids(so, VERDICT_CALL)) || !choose_way(s, so))
		return by_twin(so, more);
	dst = find_way(so, &s->way);
	if (!dst || !dst_fresh(dst))
		return STEP_RESOLVE;
	if (!dst->ring)
		return by_twin(so, more); /* only the kernel reaches it */
	if (!s->readable)
		return STEP_FORBIDDEN;
	gso = s->sent.segmented ? s->sent.gso_size : so->opt->gso_size;
	if (more)
		return begin(s, so, dst, gso);
	if (!udp_segments_fit(so, dst, s->len, gso))
		return SOCK_KERNEL;
	return put(so, ring, dst, s->msg->msg_iov, s->msg->msg_iovlen, s->len, gso);
}

/*
 * The call ends with an error, or (SOCK_KERNEL) the kernel has to make it.  The pending
 * datagram, to which the call has added, goes to the kernel or is discarded.
 */
static ssize_t fail(const struct send *s, ssize_t error)
{
	struct inet_sock *so = inet_of(s->ref.sk);
	struct ring *ring;

	if (!s->added)
		return error;
	if (!sock_hold_cold(s->ref, &ring)) {
		if (so->udp.pending == UDP_PENDING_HERE && error == SOCK_KERNEL)
			error = push_by_twin(so, 0);
		else if (so->udp.pending == UDP_PENDING_HERE)
			discard(so);
		ring_release_cold(ring);
	}
	return error < 0 && error != SOCK_KERNEL ? error : (ssize_t)s->len;
}

static bool run_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct send *s = arg;
	struct inet_sock *so = inet_of(s->ref.sk);

	(void)wait;
	*n = step(s, so, ring);
	if (*n >= 0)
		sock_access_tx(so);
	if (*n == STEP_NO_FRAMES || *n == STEP_FULL)
		ring_poll(ring); /* sent frames come back, timers run */
	if (*n >= SOCK_KERNEL)	 /* not STEP_* */
		return true;
	s->step = *n;
	*n = SOCK_TRY_ASIDE;
	return false;
}

/* The data was not added yet: no call begins a datagram that it cannot send. */
static ssize_t forbidden(const struct send *s)
{
	int rc = -EAGAIN;

	if (!control_lock())
		return rc;
	rc = strict_check(inet_of(s->ref.sk), CONF_MUST, VERDICT_CALL);
	control_unlock();
	return rc;
}

static ssize_t run_aside(void *arg, struct sock_wait *wait)
{
	struct send *s = arg;
	ssize_t n;
	int rc;

	if (s->step == STEP_RESOLVE) {
		rc = ++s->tries > UDP_RESOLVE_TRIES ? SOCK_KERNEL : udp_resolve(s->ref, &s->way);
		return rc ? fail(s, rc) : SOCK_TRY_AGAIN;
	}
	if (s->step == STEP_FORBIDDEN)
		return forbidden(s);
	if (sock_wait_is_over(wait))
		return fail(s, wait->why);
	if (!wait->dontwait)
		return SOCK_TRY_WAIT;
	n = fail(s, -EAGAIN);
	return params.tx_nonblocked_eagains || s->step == STEP_FULL ? n : (ssize_t)s->len;
}

static ssize_t run(struct send *s)
{
	struct sock_call call = SOCK_CALL(s->ref, s->flags, EPOLLOUT);

	return sock_wait_loop(call, SOCK_WAIT_COLD, run_try, run_aside, s);
}

ssize_t udp_send_special(struct sock_ref ref, const struct msghdr *msg, int flags)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct send s = {.ref = ref,
			 .msg = msg,
			 .flags = flags,
			 .len = iov_total(msg->msg_iov, msg->msg_iovlen)};
	int rc = 0;

	if ((__atomic_load_n(&ref.sk->twin_events, __ATOMIC_RELAXED) & EPOLLERR) &&
	    !(flags & MSG_OOB) && udp_may_reach(so, msg))
		rc = udp_twin_error(so);
	return rc ? -rc : run(&s);
}

void udp_uncork(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct send s = {.ref = ref, .added = true};
	struct ring *ring;
	bool goes;

	if (sock_hold_cold(ref, &ring))
		return;
	goes = so->inet == INET_UDP && !so->opt->cork && so->udp.pending != UDP_PENDING_NOT;
	if (goes && so->udp.pending == UDP_PENDING_TWIN)
		set_pending(so, UDP_PENDING_NOT); /* the twin was uncorked, too */
	ring_release_cold(ring);
	if (goes)
		run(&s);
}

void udp_pending_to_twin(struct inet_sock *so)
{
	struct ring *ring;

	control_assert_held();
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (so->udp.pending == UDP_PENDING_HERE)
		push_by_twin(so, MSG_MORE);
	ring_release_cold(ring);
}
