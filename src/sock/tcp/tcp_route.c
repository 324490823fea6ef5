/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Routes of connections: looked up again when routes change, or when the connection moves to
 * another ring.
 */
#include <errno.h>

#include "base/sys.h"
#include "sock/core/access.h"
#include "sock/core/quarantine.h"
#include "sock/tcp/tcp_sock.h"

/* ---- a new route to the peer -------------------------------------------------------- */

void tcp_lose_route(struct inet_sock *so)
{
	struct tcp_info info;

	if (sock_has_ended(so) || so->tcp.dst.unroutable)
		return;
	tcp_get_info(&so->tcp.conn, &info, sock_home(so)->now);
	so->tcp.dst.unroutable_unacked = info.tcpi_unacked != 0;
	dst_set_unroutable(&so->tcp.dst);
}

/* holder: uses the route found from now on. */
static int apply_route(struct inet_sock *so, struct ring *ring, const struct dst_found *found)
{
	bool was_unroutable = so->tcp.dst.unroutable;
	uint32_t mtu = dst_mtu(&so->tcp.dst);
	nsec_t now = clock_now();
	int rc = tcp_retarget(so, ring, found);

	if (rc || sock_has_ended(so))
		return rc;
	if (mtu != found->mtu)
		tcp_path_mtu(&so->tcp.conn, found->mtu, now);
	(void)tcp_set_route(&so->tcp.conn, &found->metrics); /* without memory, nothing changes */
	if (was_unroutable)
		tcp_route_found(&so->tcp.conn, now);
	tcp_after(so, ring);
	return 0;
}

/*
 * holder: must the connection wait for tcp_rehome(), because its home receives no frames of the
 * peer?
 */
static bool must_wait_for_rehome(const struct inet_sock *so, const struct ring *home,
				 const struct dst_found *found)
{
	return so->tcp.dst.unroutable &&
	       (!ring_is_open(home) || home->ifindex != found->ring->ifindex);
}

int tcp_use_route(struct sock_ref ref, const struct dst_found *found)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc;

	control_assert_no_ring();
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	if (!sock_has_connection(so)) { /* another process owns it by now */
		ring_release_cold(ring);
		return 0;
	}
	if (found->verdict == VERDICT_ACCELERATED && must_wait_for_rehome(so, ring, found)) {
		progress_wake(); /* links.c calls tcp_rehome() */
	} else if (found->verdict == VERDICT_ACCELERATED) {
		rc = apply_route(so, ring, found);
	} else {
		if (found->verdict == VERDICT_NO_ROUTE)
			tcp_lose_route(so);
		/* Other results cannot be used: the old route stays until there is a new one. */
		so->tcp.dst.generation = found->generation;
	}
	ring_release_cold(ring);
	if (!rc)
		dst_resolve_neighbour(found);
	return rc;
}

int tcp_resolve_locked(struct sock_ref ref)
{
	struct dst_query query;
	struct dst_found found;

	control_assert_held();
	/* Otherwise the object is another socket by now, which another thread may be making. */
	if (!sock_ref_valid(ref))
		return -EBADF;
	query = sock_query(inet_of(ref.sk));
	dst_find(&query, &found);
	return tcp_use_route(ref, &found);
}

int tcp_resolve(struct sock_ref ref)
{
	int rc;

	if (!control_lock())
		return -EAGAIN;
	rc = tcp_resolve_locked(ref);
	control_unlock();
	return rc;
}

/* ---- moving to another ring (holder) ------------------------------------------------ */

static struct pkt *detach_pkt(struct pkt *pkt, void *ring)
{
	return ring_detach(ring, pkt);
}

void tcp_detach_unread(struct inet_sock *so, struct ring *ring)
{
	tcp_recvq_exchange(&so->tcp.conn.rcv, detach_pkt, ring);
}

void tcp_leave(struct inet_sock *so, struct ring *ring)
{
	wheel_cancel(&ring->wheel, &so->tcp.timer);
	list_remove(&so->tcp.flush.link);
	tcp_filter_leave(so, ring);
	tcp_recvq_exchange(&so->tcp.conn.rcv, detach_pkt, ring);
	dst_detach(&so->tcp.dst);
}

void tcp_arrive(struct inet_sock *so, struct ring *ring, const struct ring *from,
		const struct dst_found *found)
{
	if (!found || tcp_retarget(so, ring, found))
		dst_rebind(&so->tcp.dst, from, ring);
	/* What was due on the old ring is done now, and the timer is armed then. */
	ring_work_add(ring, &so->tcp.flush);
}

int tcp_retarget(struct inet_sock *so, struct ring *home, const struct dst_found *found)
{
	struct dst_headers headers = tcp_headers(so);

	return dst_apply(&so->tcp.dst, home, &so->remote, found, &headers);
}

#define REHOME_QUARANTINE (60 * NSEC_PER_SEC) /* by then peers know where the address is */

/* holder of home: detaches the connection from its ring, and makes `to` its home. */
static int rehome_leave(struct inet_sock *so, struct ring *ring, struct ring *to)
{
	if (ring == to || sock_has_ended(so))
		return -EBUSY;
	tcp_lose_route(so);
	if (ring_is_open(ring)) {
		ring_drain(ring);
		if (sock_has_ended(so))
			return -EBUSY;
		if (so->tcp.flow.listed &&
		    !quarantine_replace(ring, &so->tcp.flow, REHOME_QUARANTINE))
			return -ENOMEM;
	}
	tcp_leave(so, ring);
	ring_flow_del(ring, &so->tcp.flow);
	sock_set_home(so, to);
	return 0;
}

/* holder of the new home. Meanwhile no ring received frames for it, and it sent nothing. */
static int rehome_arrive(struct inet_sock *so, struct ring *ring, const struct dst_found *found)
{
	int rc = ring_flow_take(ring, &so->tcp.flow);

	if (rc)
		return rc;
	rc = apply_route(so, ring, found);
	ring_work_add(ring, &so->tcp.flush);
	ready_wake_all(&so->sk); /* sleeping threads look for the new descriptors */
	return rc;
}

int tcp_rehome(struct sock_ref ref, const struct dst_found *found)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring, *to = sock_rx_ring_beside(so, found->ring);
	int rc;

	control_assert_no_ring();
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	rc = rehome_leave(so, ring, to);
	ring_release_cold(ring);
	/* Between the two holds another thread may use the connection, which has no route then. */
	if (!rc)
		rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	rc = rehome_arrive(so, ring, found);
	ring_release_cold(ring);
	sock_tell_pollers();
	if (!rc)
		dst_resolve_neighbour(found);
	return rc;
}
