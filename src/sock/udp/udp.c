/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP sockets: binding, connecting, closing, and arriving datagrams.  Sending and
 * receiving are in udp_send.c and udp_recv.c.
 */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/sys.h"
#include "base/user.h"
#include "sock/core/access.h"
#include "sock/core/sock_options.h"
#include "sock/options/sock_opt.h"
#include "sock/udp/mcast.h"
#include "sock/udp/udp_pace.h"
#include "sock/udp/udp_sock.h"

/* ---- arrival (holder) ------------------------------------------------------------------- */

enum drop udp_input(struct inet_sock *so, struct ring *ring, struct pkt *pkt, bool multicast)
{
	struct udp_state *udp = &so->udp;

	if (__builtin_expect(so->life <= LIFE_CLOSED || so->inet != INET_UDP, 0))
		return DROP_SOCK_CLOSED;
	if (__builtin_expect(multicast, 0) && !mcast_is_from_peer(so, pkt))
		return DROP_SOCK_FILTER;
	if (__builtin_expect(udp->bytes >= udp->limit, 0)) {
		udp->dropped++;
		sock_count(so, rx_drops, 1);
		sock_count(so, rx_drop_bytes, pkt->len);
		return DROP_SOCK_FULL;
	}
	pkt = ring_keep(ring, pkt, udp->bytes, 0);
	if (!pkt)
		return DROP_NO_MEMORY;
	if (__builtin_expect(so->noted, 0)) {
		pkt->drops = (uint32_t)udp->dropped;
		if (udp->filter)
			return udp_filter_input(so, ring, pkt);
		pkt->stamp = pkt_arrived(pkt);
	}
	udp->bytes += udp_charge(pkt);
	udp_queue(so, pkt);
	return DROP_NONE;
}

/* Queues a run as far as it may be queued as it is; returns the rest. */
static inline struct pkt *queue_run(struct inet_sock *so, const struct ring *ring,
				    struct pkt *first)
{
	struct udp_state *udp = &so->udp;
	uint32_t bytes = udp->bytes, limit = udp->limit;
	int ifindex = ring->ifindex;
	struct pkt *pkt, *last = NULL;
	unsigned n = 0;

	for (pkt = first; pkt; pkt = pkt->next) {
		if (__builtin_expect(bytes >= limit || (pkt->pool->flags & PKT_POOL_SHARED), 0))
			break;
		pkt->ifindex = ifindex;
		bytes += udp_charge(pkt);
		last = pkt;
		n++;
	}
	udp->bytes = bytes;
	if (__builtin_expect(!last, 0))
		return pkt;
	last->next = NULL;
	udp_queue_run(so, first, last, n);
	return pkt;
}

/* holder of home: as flow.deliver of a run, whose sender was looked at if it is to a group. */
static __attribute__((noinline)) enum drop input_run(struct inet_sock *so, struct ring *ring,
						     struct pkt *first)
{
	struct filter *f = so->udp.filter;
	struct pkt *rest;

	if (so->life <= LIFE_CLOSED || so->inet != INET_UDP || (so->noted && !f) ||
	    ring_is_short(ring))
		return DROP_SOCK_CLOSED; /* each one is asked about */
	rest = f ? udp_filter_run(so, ring, first) : queue_run(so, ring, first);
	if (rest == first)
		return DROP_SOCK_FULL;
	if (__builtin_expect(rest != NULL, 0))
		udp_input_rest(so, ring, rest);
	return DROP_NONE;
}

void udp_input_rest(struct inet_sock *so, struct ring *ring, struct pkt *pkt)
{
	struct pkt *next;

	if (pkt->next && input_run(so, ring, pkt) == DROP_NONE)
		return;
	for (; pkt; pkt = next) {
		next = pkt->next;
		ring_receive(ring, pkt); /* drops and counts it, if need be */
	}
}

/* ---- a datagram for a socket that lives on another ring ---------------------------------- */

struct forward_item {
	struct inbox_item item;
	struct inet_sock *so;
	uint32_t gen;
	bool multicast;
	struct pkt *pkt;
};

static void forward_run(struct ring *ring, struct inbox_item *item)
{
	struct forward_item *fwd = container_of(item, struct forward_item, item);
	struct inet_sock *so = fwd->so;
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	struct ring *home = __atomic_load_n(&so->sk.home, __ATOMIC_ACQUIRE);
	enum drop reason = DROP_SOCK_CLOSED;

	/* Pairs with the end of references in core/sock.c. */
	if (home != ring && __atomic_load_n(&so->sk.gen, __ATOMIC_ACQUIRE) == fwd->gen) {
		ring_post(home, &fwd->item); /* the socket has moved on */
		return;
	}
	if (home == ring && so->sk.gen == fwd->gen) {
		if (so->udp.filter)
			ring_set_now(ring, clock_now()); /* it arrives now: filter_arrived() */
		reason = udp_input(so, ring, fwd->pkt, fwd->multicast);
	}
	if (reason != DROP_NONE) {
		ring_drop(ring, reason);
		pkt_free(fwd->pkt);
	}
	mem_free(fwd);
}

/* Consumes the frame unless a reason is returned. */
static __attribute__((noinline)) enum drop udp_forward(struct ring *ring, struct sock_flow *flow,
						       struct pkt *pkt)
{
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	struct ring *home = __atomic_load_n(&flow->so->sk.home, __ATOMIC_ACQUIRE);
	struct forward_item *fwd = mem_alloc(sizeof(*fwd));

	if (!fwd)
		return DROP_NO_MEMORY;
	fwd->item.run = forward_run;
	fwd->so = flow->so;
	fwd->gen = flow->gen;
	fwd->multicast = flow->multicast;
	fwd->pkt = ring_detach(ring, pkt);
	ring_post(home, &fwd->item);
	return DROP_NONE;
}

static inline enum drop deliver(struct ring *ring, struct sock_flow *f, struct pkt *pkt)
{
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	bool elsewhere = __atomic_load_n(&f->so->sk.home, __ATOMIC_ACQUIRE) != ring;

	if (pkt->next)
		return elsewhere ? DROP_SOCK_CLOSED : input_run(f->so, ring, pkt);
	pkt->ifindex = ring->ifindex;
	if (__builtin_expect(elsewhere, 0))
		return udp_forward(ring, f, pkt);
	return udp_input(f->so, ring, pkt, f->multicast);
}

static __attribute__((noinline)) enum drop deliver_multicast(struct ring *ring, struct sock_flow *f,
							     struct pkt *pkt)
{
	bool takes = pkt->next ? mcast_takes_run(ring, f, pkt) : mcast_takes(ring, f, pkt);

	return takes ? deliver(ring, f, pkt) : DROP_SOCK_FILTER;
}

/* Its calls are the last thing that it does: it needs no stack. */
static enum drop udp_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct sock_flow *f = container_of(flow, struct sock_flow, flow);

	if (__builtin_expect(f->multicast, 0))
		return deliver_multicast(ring, f, pkt);
	return deliver(ring, f, pkt);
}

struct pkt *udp_pop(struct inet_sock *so)
{
	struct udp_state *udp = &so->udp;
	struct pkt *pkt = udp->head;

	udp->head = pkt->next;
	udp->bytes -= udp_charge(pkt);
	udp->count--;
	if (!udp->head) {
		udp->tail = NULL;
		sock_set_events(so, sock_own_events(so) &
					    ~(uint32_t)(so->shut_rd ? 0 : EPOLLIN | EPOLLRDNORM));
	}
	return pkt;
}

void udp_free_second(struct inet_sock *so)
{
	struct udp_state *udp = &so->udp;
	struct pkt *second = udp->head->next;

	udp->head->next = second->next;
	if (udp->tail == second)
		udp->tail = udp->head;
	udp->bytes -= udp_charge(second);
	udp->count--;
	pkt_free(second);
}

static void each_cached(struct udp_dst **cache, void (*fn)(struct dst *dst, void *arg), void *arg)
{
	for (int i = 0; cache && i < UDP_DST_CACHE; i++) {
		if (cache[i])
			fn(&cache[i]->dst, arg);
	}
}

static void each_dst(struct inet_sock *so, void (*fn)(struct dst *dst, void *arg), void *arg)
{
	fn(&so->udp.dst, arg);
	each_cached(so->udp.cache, fn, arg);
	if (so->udp.rare)
		each_cached(so->udp.rare->ways, fn, arg);
}

static void expire_dst(struct dst *dst, void *arg)
{
	(void)arg;
	dst_expire(dst);
}

static void udp_options_changed(struct inet_sock *so, bool quickack)
{
	uint32_t least = (uint32_t)params.rx_bytes_min;

	(void)quickack;
	if (so->udp.limit)
		so->udp.limit = so->opt->rcvbuf > least ? so->opt->rcvbuf : least;
	/* Headers contain options, so they are built again. */
	each_dst(so, expire_dst, NULL);
	udp_pace_changed(so);
	udp_note_special(so);
}

void udp_init(struct inet_sock *so)
{
	control_assert_held();
	so->inet = INET_UDP;
	list_init(&so->udp.groups);
	so->udp.claim = -1;
	dst_init(&so->udp.dst);
	so->udp.limit = 1; /* not 0: it is set now */
	udp_options_changed(so, false);
	sock_set_events(so, EPOLLOUT | EPOLLWRNORM);
}

static void forget_dst(struct dst *dst, void *arg)
{
	(void)arg;
	dst_fini(dst);
	dst_expire(dst);
}

bool udp_close(struct inet_sock *so, struct ring *ring)
{
	ring_assert_held(ring);
	filter_end(so->udp.filter);
	while (so->udp.head)
		pkt_free(udp_pop(so));
	each_dst(so, forget_dst, NULL);
	for (int i = 0; so->udp.cache && i < UDP_DST_CACHE; i++)
		mem_free(so->udp.cache[i]);
	mem_free(so->udp.cache);
	so->udp.cache = NULL;
	udp_pace_close(so, ring);
	udp_rare_free(so);
	return false;
}

/* ---- moving to another ring (holder) ------------------------------------------------------ */

struct tx_rings {
	struct ring **rings;
	unsigned n, max;
};

static void note_tx_ring(struct dst *dst, void *arg)
{
	struct tx_rings *tx = arg;
	struct ring *ring = dst_wire_ring(dst);

	for (unsigned i = 0; i < tx->n; i++) {
		if (tx->rings[i] == ring)
			return;
	}
	if (ring && tx->n < tx->max)
		tx->rings[tx->n++] = ring;
}

unsigned udp_tx_rings(struct inet_sock *so, struct ring **rings, unsigned max)
{
	struct tx_rings tx = {rings, 0, max};

	each_dst(so, note_tx_ring, &tx);
	return tx.n;
}

void udp_retarget(struct inet_sock *so)
{
	each_dst(so, expire_dst, NULL);
}

void udp_detach_list(struct ring *ring, struct pkt **head, struct pkt **tail)
{
	/* Frames go back to the ring that received them. */
	for (struct pkt **link = head; *link; link = &(*link)->next) {
		struct pkt *next = (*link)->next;

		*link = ring_detach(ring, *link);
		(*link)->next = next;
		*tail = *link;
	}
}

void udp_leave(struct inet_sock *so, struct ring *ring)
{
	udp_detach_list(ring, &so->udp.head, &so->udp.tail);
	udp_filter_leave(so, ring);
	udp_pace_leave(so, ring);
	each_dst(so, forget_dst, NULL);
}

void udp_arrive(struct inet_sock *so, struct ring *ring)
{
	udp_pace_arrive(so, ring);
}

/* holder: the interface of home is gone. */
static void udp_leave_lost(struct inet_sock *so, struct ring *ring)
{
	udp_pace_lose(so, ring);
	udp_leave(so, ring);
}

/* holder: the program gave a datagram back. */
static void udp_held_freed(struct inet_sock *so, uint32_t charge)
{
	so->udp.bytes -= charge;
}

/* ---- the rest ---------------------------------------------------------------------------------------- */

int udp_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
	       struct sock_ref *child)
{
	child->sk = NULL;
	return SOCK_KERNEL;
}

int udp_listen(struct sock_ref ref, int backlog)
{
	return SOCK_KERNEL;
}

int udp_getpeername(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	return SOCK_KERNEL; /* the twin is connected, too */
}

int udp_ioctl(struct sock_ref ref, unsigned long cmd, void *arg)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc, n = 0;

	if (cmd != FIONREAD)
		return SOCK_KERNEL;
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	if (!so->udp.head)
		ring_poll(ring);
	if (so->udp.head) {
		n = so->udp.head->len;
		rc = 1;
	}
	ring_release_cold(ring);
	if (!rc)
		return SOCK_KERNEL;
	return user_store32(arg, (uint32_t)n) ? 0 : -EFAULT;
}

int udp_shutdown(struct sock_ref ref, int how)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	uint32_t events = 0;
	int told = sys_shutdown(sock_twin(ref.sk), how), rc;

	/* The kernel returns -ENOTCONN, but has done it. */
	if (told && told != -ENOTCONN)
		return told;
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	if (how == SHUT_RD || how == SHUT_RDWR) {
		so->shut_rd = true;
		events |= EPOLLIN | EPOLLRDNORM | EPOLLRDHUP;
	}
	if (how == SHUT_WR || how == SHUT_RDWR)
		so->shut_wr = true;
	if (so->shut_rd && so->shut_wr)
		events |= EPOLLHUP;
	sock_set_events(so, sock_own_events(so) | events);
	ready_notify(&so->sk, events);
	ring_release_cold(ring);
	return told;
}

static const struct sock_ops udp_ops[HOLD_MODES] = {
#define X(name, mode) [mode] = {UDP_OPS(name, udp_recv), QUICK_SENDS_OPS(udp_quick, name)},
	SOCK_MODES(X)
#undef X
};

/* ---- the kind ------------------------------------------------------------------------------ */

static void udp_default_options(struct inet_sock *so, struct sock_options *opt)
{
	int zero = 0;

	opt->rcvbuf = (uint32_t)sock_twin_int(so, SOL_SOCKET, SO_RCVBUF, 212992);
	opt->sndbuf = (uint32_t)sock_twin_int(so, SOL_SOCKET, SO_SNDBUF, 212992);
	if (!opt->mc_loop && so->family == AF_INET)
		sys_setsockopt(sock_twin(&so->sk), IPPROTO_IP, IP_MULTICAST_LOOP, &zero,
			       sizeof(zero));
	else if (!opt->mc_loop)
		sys_setsockopt(sock_twin(&so->sk), IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &zero,
			       sizeof(zero));
}

static void udp_publish(const struct inet_sock *so, struct stats_sock *slot,
			struct sock_stats_seen *seen)
{
	(void)seen;
	stats_set(&slot->rx_reads, slot->rx_packets); /* a call takes one */
	slot->rx_queued_packets = so->udp.count;
	slot->rx_queued_bytes = so->udp.bytes;
	slot->rx_limit = so->udp.limit;
	stats_raise(&slot->rx_most_packets, so->udp.count);
	stats_raise(&slot->rx_most_bytes, so->udp.bytes);
}

static int *udp_claim(struct inet_sock *so)
{
	return &so->udp.claim;
}

/*
 * holder: the kernel gives the error to the twin, if that is connected; the next call
 * looks there.
 */
static void udp_icmp_error(struct ring *ring, struct flow *flow, const struct icmp_error *error)
{
	struct inet_sock *so = container_of(flow, struct sock_flow, flow)->so;

	(void)ring;
	(void)error;
	__atomic_fetch_or(&so->sk.twin_events, EPOLLERR, __ATOMIC_RELAXED);
}

/* sock_kind.ended */
static void udp_ended(struct inet_sock *so)
{
	mcast_forget(so);
	if (so->udp.local)
		sock_upcalls.local_udp_end(so);
}

/* SO_VMA_SHUTDOWN_RX: nothing fits into the queue any more, and a filter drops what the kernel gets. */
static int shut_rx(struct sock_ref ref)
{
	struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog drop_all = {.len = 1, .filter = &none};
	struct ring *ring;
	int rc = sys_setsockopt(sock_twin(ref.sk), SOL_SOCKET, SO_ATTACH_FILTER, &drop_all,
				sizeof(drop_all));

	if (rc)
		return rc;
	if (inet_of(ref.sk)->udp.local) /* senders of this host use the kernel from now on */
		sock_upcalls.local_receive_stop(inet_of(ref.sk));
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	inet_of(ref.sk)->udp.limit = 0;
	ring_release_cold(ring);
	return 0;
}

static int udp_set_option(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	(void)val;
	(void)len;
	return level == SOL_SOCKET && name == SO_VMA_SHUTDOWN_RX ? shut_rx(ref) : SOCK_KERNEL;
}

static void udp_option_followed(struct inet_sock *so, int level, int name)
{
	if ((level == IPPROTO_IP && name == IP_MULTICAST_ALL) ||
	    (level == IPPROTO_IPV6 && name == IPV6_MULTICAST_ALL))
		mcast_all_changed(so);
}

static void udp_option_set(struct sock_ref ref, int level, int name)
{
	if (level == IPPROTO_UDP && name == UDP_CORK)
		udp_uncork(ref);
}

/* flow.deliver of a group's flow with VMA_SOCKETXTREME. */
static enum drop deliver_group_xtreme(struct ring *ring, struct flow *flow, struct pkt *pkt,
				      nsec_t now)
{
	if (pkt->next && !mcast_takes_run(ring, container_of(flow, struct sock_flow, flow), pkt))
		return DROP_SOCK_FILTER;
	return udp_xtreme_deliver(ring, flow, pkt, now);
}

/* sock_kind.flow_begin */
static bool take_runs(struct inet_sock *so, struct sock_flow *f)
{
	(void)so;
	f->flow.runs = !f->multicast;
	f->flow.group_runs = f->multicast;
	if (f->multicast && f->flow.deliver == udp_xtreme_deliver)
		f->flow.deliver = deliver_group_xtreme;
	return true;
}

const struct sock_kind udp_kind = {
	.protocol = IPPROTO_UDP,
	.ops = udp_ops,
	.deliver = udp_deliver,
	.flow_begin = take_runs,
	.deliver_xtreme = udp_xtreme_deliver,
	.init = udp_init,
	.default_options = udp_default_options,
	.attach_anew = udp_attach_anew,
	.detach = udp_detach,
	.detached = mcast_detach,
	.leave_home = udp_leave_lost,
	.device_changed = udp_reattach,
	.groups_to_kernel = mcast_leave_to_kernel,
	.claim = udp_claim,
	.icmp_error = udp_icmp_error,
	.linger = udp_linger,
	.close = udp_close,
	.ended = udp_ended,
	.recv_zcopy = udp_recv_zcopy,
	.tx_ring = udp_tx_ring,
	.filter = &udp_filter_kind,
	.headers = udp_read_headers,
	.held_freed = udp_held_freed,
	.xtreme_take = udp_xtreme_take,
	.recv_batch = udp_recv_batch,
	.send_batch = udp_send_batch,
	.room = udp_room,
	.commit = udp_commit,
	.set_option = udp_set_option,
	.set_group = mcast_setsockopt,
	.options_changed = udp_options_changed,
	.option_followed = udp_option_followed,
	.option_set = udp_option_set,
	.publish = udp_publish,
};
