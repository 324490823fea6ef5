/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram sockets that fall back to the kernel while datagrams are unread.  They stay in
 * the program's table until those are read: what was queued here is older than what the
 * kernel receives, and has to be read first.
 */
#include "ring/source.h"
#include "sock/options/sock_opt.h"
#include "sock/udp/mcast.h"
#include "sock/udp/udp_sock.h"

void udp_cease_flows(struct inet_sock *so, struct rings_barrier *barrier)
{
	control_assert_held();
	control_assert_no_ring();
	sock_upcalls.move_settle(so);
	if (so->udp.local)
		sock_upcalls.local_receive_stop(so);
	list_for_each(link, &so->flows) {
		struct sock_flow *f = sock_flow_of(link);

		if (!ring_hold_cold(f->ring))
			continue;
		if (ring_flow_cease(f->ring, &f->flow))
			rings_barrier_add(barrier, f->ring);
		ring_release_cold(f->ring);
	}
}

/* Delivers the packets whose senders the ring does not know, if the kernel accepts them. */
static void drain_unchecked(struct sock_flow *f, struct pkt *pkts)
{
	unsigned refused;

	pkts = source_ask(f->ring, pkts, &refused);
	if (!ring_hold_cold(f->ring)) /* the socket's reference keeps it open */
		return;
	ring_flow_drained(f->ring, &f->flow, pkts);
	while (refused--)
		ring_drop(f->ring, DROP_SOURCE);
	ring_release_cold(f->ring);
}

void udp_drain_flows(struct inet_sock *so)
{
	control_assert_held();
	control_assert_no_ring();
	list_for_each(link, &so->flows) {
		struct sock_flow *f = sock_flow_of(link);
		struct pkt *unchecked;

		if (!ring_hold_cold(f->ring))
			continue;
		unchecked = ring_flow_drain(f->ring, &f->flow);
		ring_release_cold(f->ring);
		if (unchecked)
			drain_unchecked(f, unchecked);
	}
}

/* It is never attached again. */
static void detach(struct inet_sock *so)
{
	struct rings_barrier barrier = {.n = 0};

	udp_cease_flows(so, &barrier);
	rings_barrier_wait(&barrier);
	udp_drain_flows(so);
	sock_flows_del(so);
	mcast_forget(so);
	so->wildcard = false;
}

/* ---- the calls of one that lingers ---------------------------------------------------- */

static int linger_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
			 struct sock_ref *child)
{
	child->sk = NULL;
	return SOCK_KERNEL;
}

static int linger_address(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	return SOCK_KERNEL;
}

static int linger_getname(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	return SOCK_KERNEL;
}

static int linger_listen(struct sock_ref ref, int backlog)
{
	return SOCK_KERNEL;
}

static ssize_t linger_send(struct sock_ref ref, const struct msghdr *msg, int flags)
{
	return SOCK_KERNEL;
}

static ssize_t linger_recv(struct sock_ref ref, struct msghdr *msg, int flags)
{
	struct inet_sock *so = inet_of(ref.sk);
	ssize_t n = SOCK_KERNEL;
	enum verdict verdict;
	struct ring *ring;
	bool over;
	int rc;

	if (flags & MSG_ERRQUEUE)
		return SOCK_KERNEL;
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	if (so->udp.head)
		n = udp_take(so, msg, flags);
	over = !so->udp.head;
	verdict = so->verdict;
	ring_release_cold(ring);
	if (over)
		sock_to_kernel(ref, verdict);
	return n;
}

static const struct sock_ops linger_ops = {
	.accept = linger_accept,
	.bind = linger_address,
	.connect = linger_address,
	.getpeername = linger_getname,
	.getsockname = linger_getname,
	.getsockopt = sock_getsockopt,
	.ioctl = udp_ioctl,
	.listen = linger_listen,
	.recv = linger_recv,
	.send = linger_send,
	.setsockopt = sock_setsockopt,
	.shutdown = udp_shutdown,
};

bool udp_linger(struct inet_sock *so)
{
	bool begins = !udp_lingers(so), unread;
	struct ring *ring;

	control_assert_held();
	if (begins) {
		sock_upcalls.move_settle(so);
		udp_pending_to_twin(so);
		detach(so);
	}
	if (sock_hold_cold(sock_ref_of(so), &ring)) /* this also runs what was forwarded to it */
		return false;
	filter_pass(so->udp.filter);
	unread = so->udp.head != NULL;
	if (begins && unread) {
		/* Pairs with the load of ops in each wrapper: the table is constant. */
		__atomic_store_n(&so->sk.ops, &linger_ops, __ATOMIC_RELEASE);
		sock_life_set(so, LIFE_LINGERING);
	}
	ring_release_cold(ring);
	return unread;
}
