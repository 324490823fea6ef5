/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members: listeners and bound datagram sockets of several processes. Each process that
 * uses one is a member of its flow's receivers (ring/reuseport.h), over which packets are
 * spread. In a process that does not use it the socket is exported.
 */
#include "sock/share/share_internal.h"

#include <errno.h>

#include "base/log.h"
#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "sock/core/kernel_conns.h"
#include "sock/core/sock_options.h"
#include "sock/local/local_sock.h"
#include "sock/move/move.h"
#include "sock/share/transfer.h"
#include "sock/tcp/tcp_handed.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/tcp/timewait.h"
#include "sock/udp/udp_sock.h"

#define DATAGRAMS_MAX 16384 /* transferred at once */

bool member_is(const struct inet_sock *so)
{
	if (sock_is_gone(so) || !member_receives(so))
		return false;
	if (so->inet == INET_LISTEN)
		return true;
	return so->inet == INET_UDP && !so->udp.connected && list_empty(&so->udp.groups);
}

bool member_receives(const struct inet_sock *so)
{
	if (!so->bound)
		return false;
	return so->verdict == VERDICT_ACCELERATED ||
	       (so->verdict == VERDICT_LOCAL && so->inet == INET_LISTEN);
}

/* Resets the part of the socket that is specific to its kind. */
static void blank_part(struct inet_sock *so)
{
	unsigned backlog = so->inet == INET_LISTEN ? so->listen.backlog : 0;

	if (so->inet == INET_UDP) {
		memset(&so->udp, 0, sizeof(so->udp));
		udp_init(so);
		return;
	}
	if (so->inet == INET_LISTEN)
		tcp_handed_forget(so);
	memset(&so->listen, 0, sizeof(so->listen));
	list_init(&so->listen.queue);
	so->listen.backlog = backlog;
	so->listen.claim = -1;
}

void member_begin_exported(struct inet_sock *so)
{
	blank_part(so);
	sock_become_exported(so);
}

/* Of a listener whose verdict is known: can local connections come here, too? */
static bool listens_locally(struct inet_sock *so)
{
	return so->inet == INET_LISTEN && so->verdict != VERDICT_NAMESPACE && local_listen(so);
}

/* Joins the flows; the socket has its ordinary calls then. */
int member_arrive(struct inet_sock *so)
{
	struct ring *ring;
	bool local;

	so->joins = true;
	if (sock_start() && !netlink_is_of(sock_twin(&so->sk)))
		so->verdict = VERDICT_NAMESPACE;
	else if (so->inet == INET_LISTEN)
		tcp_listen_attach(so);
	else
		so->verdict = sock_attach(so);
	local = listens_locally(so);
	if (so->verdict == VERDICT_ACCELERATED)
		sock_port_claim(so);
	else if (local)
		sock_set_local(so);
	else
		return SOCK_KERNEL;
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return -EAGAIN;
	/* Pairs with the load of ops in each wrapper: the flows are joined. */
	__atomic_store_n(&so->sk.ops,
			 so->inet == INET_UDP ? &udp_kind.ops[ring_mode_now()]
					      : &tcp_kind.ops[ring_mode_now()],
			 __ATOMIC_RELEASE);
	sock_life_set(so, so->inet == INET_UDP ? LIFE_RECEIVING : LIFE_LISTENING);
	sock_set_events(so, sock_own_events(so) & ~(uint32_t)(SOCK_EXPORTED | SOCK_ASKED));
	ready_wake_all(&so->sk);
	ring_release_cold(ring);
	return 0;
}

bool member_is_idle(struct inet_sock *so)
{
	return !__atomic_load_n(&so->sk.waiters, __ATOMIC_RELAXED) && list_empty(&so->sk.watches);
}

void member_stop(struct inet_sock *so)
{
	sock_move_settle(so);
	if (so->inet == INET_LISTEN) {
		timewait_listener_stops(so);
		local_listen_stop(so);
	}
	list_for_each(link, &so->flows) {
		struct sock_flow *f = sock_flow_of(link);

		if (!ring_hold_cold(f->ring))
			continue;
		ring_flow_stop(f->ring, &f->flow);
		ring_release_cold(f->ring);
	}
}

bool member_start(struct inet_sock *so)
{
	bool started = true;

	sock_move_settle(so);
	if (so->inet == INET_LISTEN) {
		kernel_conns_begin(so); /* what the kernel has accepted meanwhile */
		started = !so->listen.local || local_listen(so);
	}
	list_for_each(link, &so->flows) {
		struct sock_flow *f = sock_flow_of(link);

		if (!ring_hold_cold(f->ring))
			return false;
		started = !ring_flow_start(f->ring, &f->flow) && started;
		ring_release_cold(f->ring);
	}
	return started;
}

bool member_has_handshakes(struct inet_sock *so)
{
	bool some = false;

	if (so->inet != INET_LISTEN)
		return false;
	list_for_each(link, &so->flows) {
		struct sock_flow *f = sock_flow_of(link);

		if (!ring_hold_cold(f->ring))
			continue;
		ring_drain(f->ring); /* a frame may have arrived that was not processed */
		some |= f->shard && f->shard->l.pending;
		ring_release_cold(f->ring);
	}
	return some;
}

/* Exports the oldest unaccepted connection. 0 or -errno. */
static int take_pending(struct inet_sock *so, uint64_t channel, int *memfd)
{
	struct list *link = NULL;
	struct inet_sock *child;
	struct ring *ring;
	int rc;

	if (sock_hold_cold(sock_ref_of(so), &ring))
		return -EAGAIN;
	link = list_pop_front(&so->listen.queue);
	if (link)
		__atomic_store_n(&so->listen.waiting, so->listen.waiting - 1, __ATOMIC_RELAXED);
	ring_release_cold(ring);
	if (!link) {
		*memfd = tcp_handed_take(so);
		return *memfd < 0 ? -ENOENT : 0;
	}
	child = container_of(link, struct inet_sock, accept_link);
	rc = transfer_export(child, channel, so->id, memfd);
	sock_end(child); /* closes the connection if the export failed */
	return rc;
}

/* Takes all unread datagrams at once: in several messages they could overtake each other. */
static int take_datagrams(struct inet_sock *so, int *memfd)
{
	struct ring *ring;
	struct pkt *pkt;

	if (sock_hold_cold(sock_ref_of(so), &ring))
		return -EAGAIN;
	*memfd = so->udp.head ? transfer_frames() : -ENOENT;
	for (unsigned n = 0; *memfd >= 0 && so->udp.head && n < DATAGRAMS_MAX; n++) {
		pkt = udp_pop(so);
		transfer_put_frame(*memfd, pkt);
		pkt_free(pkt);
	}
	if (!so->udp.head)
		sock_set_events(so, sock_own_events(so) & ~(uint32_t)(EPOLLIN | EPOLLRDNORM));
	ring_release_cold(ring);
	return *memfd < 0 ? -ENOENT : 0;
}

bool member_take_off(struct inet_sock *so, uint64_t channel, int *memfd)
{
	int rc = -ENOENT;

	do {
		rc = so->inet == INET_LISTEN ? take_pending(so, channel, memfd)
					     : take_datagrams(so, memfd);
	} while (rc && rc != -ENOENT && rc != -EAGAIN);
	return rc == 0;
}

/* Clients send again what a listener loses here, but not datagrams. */
static void drain_datagrams(struct inet_sock *so)
{
	struct rings_barrier barrier = {.n = 0};

	udp_cease_flows(so, &barrier);
	list_for_each(link, &so->flows) /* those that member_stop() stopped, too */
		rings_barrier_add(&barrier, sock_flow_of(link)->ring);
	rings_barrier_wait(&barrier);
	udp_drain_flows(so);
}

void member_end_flows(struct inet_sock *so)
{
	if (so->inet == INET_UDP)
		drain_datagrams(so);
	sock_flows_del(so);
	if (so->inet == INET_LISTEN)
		local_listen_finish(so);
}

void member_leave(struct inet_sock *so)
{
	struct ring *ring;

	member_end_flows(so);
	sock_port_unclaim(so);
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (so->inet == INET_UDP)
		udp_close(so, ring);
	sock_become_exported(so);
	ready_wake_all(&so->sk);
	sock_set_home(so, rings_nowhere());
	ring_release_cold(ring);
}

/* An accepted child, as a handshake that ended here makes it. */
static struct inet_sock *make_child(const struct inet_sock *so)
{
	struct inet_sock *child = sock_alloc(SOCK_TYPE_TCP);

	if (!child)
		return NULL;
	child->inet = INET_TCP;
	child->family = so->family;
	child->local = so->local;
	sock_options_use(child, options_get(so->opt));
	tcp_part_init(child);
	child->verdict = VERDICT_ACCELERATED;
	sock_life_set(child, LIFE_EXPORTED);
	sock_set_events(child, SOCK_EXPORTED);
	return child;
}

static int take_in_datagrams(struct inet_sock *so, int memfd)
{
	unsigned most = DATAGRAMS_MAX;
	struct flow_key key;
	struct ring *ring;
	struct pkt *pkt;
	off_t at = 0;
	int rc = sock_hold_cold(sock_ref_of(so), &ring);

	if (rc)
		return rc;
	while (most-- && (pkt = transfer_next_frame(memfd, &at))) {
		if (frame_parse(pkt, FRAME_PARTIAL_CSUM, &key) != DROP_NONE ||
		    udp_input(so, ring, pkt, false) != DROP_NONE)
			pkt_free(pkt); /* dropped, as if the queue were full */
	}
	ring_release_cold(ring);
	return 0;
}

static void queue_local(struct inet_sock *so, struct inet_sock *child)
{
	child->raw_twin = true; /* as of any accepted child */
	child->shm.listener = so;
	child->shm.listener_gen = so->sk.gen;
	tcp_child_queue(child);
}

/* The caller goes on to own memfd. */
static int take_in_handed(struct inet_sock *so, int memfd)
{
	int fd = sys_fd_copy(memfd), rc;

	if (fd < 0)
		return -EAGAIN;
	rc = tcp_handed_queue(so, fd);
	if (rc)
		sys_close(fd);
	return rc;
}

/* Why an import failed: not now, or not here, whenever it is tried? */
static int unable_or(int rc, int memfd)
{
	if (rc == -EINVAL || rc == -EAGAIN || rc == -ENOMEM || rc == -EBUSY)
		return rc;
	return transfer_family(memfd) ? SHARE_UNABLE : rc;
}

int member_take_pending(struct inet_sock *so, uint64_t channel, int memfd)
{
	struct inet_sock *child;
	struct ring *ring;
	int rc;

	if (so->inet == INET_UDP)
		return take_in_datagrams(so, memfd);
	if (tcp_handed_is(memfd))
		return take_in_handed(so, memfd);
	child = make_child(so);
	rc = child ? transfer_import(child, memfd) : -ENOMEM;
	if (!rc && child->inet == INET_LOCAL) {
		queue_local(so, child);
		return 0;
	}
	if (!rc && !sock_life_is(child, LIFE_CONNECTING))
		rc = -EINVAL; /* its sender says that it was accepted */
	if (rc || sock_hold_cold(sock_ref_of(child), &ring)) {
		if (child)
			sock_end(child);
		return rc ? unable_or(rc, memfd) : -EAGAIN;
	}
	child->tcp.listener = so;
	child->tcp.listener_gen = so->sk.gen;
	share_note_arrival(channel, child);
	tcp_child_established(child);
	ring_release_cold(ring);
	return 0;
}
