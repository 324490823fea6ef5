/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP sockets: bind and connect. */
#include <errno.h>

#include "base/log.h"
#include "base/param.h"
#include "base/sys.h"
#include "sock/core/access.h"
#include "sock/core/extra/filter.h"
#include "sock/core/host_state.h"
#include "sock/core/msg/family.h"
#include "sock/core/msg/stamps.h"
#include "sock/core/port/local_port.h"
#include "sock/core/rules/rules.h"
#include "sock/core/rules/strict.h"
#include "sock/core/sock_options.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/tcp/timewait.h"
#include "sock/wait/wait.h"

/*
 * bind(2) of an accepted connection, whose twin has no port: the error that the kernel would
 * return.  For IPv6 it looks at the state before it looks at the address.
 */
static int bind_error(const struct inet_sock *so, const struct sockaddr *addr, socklen_t len)
{
	int fd = sys_socket(so->family, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -EINVAL;
	rc = sys_bind(fd, addr, len);
	sys_close(fd);
	if (!rc || rc == -EADDRINUSE || (rc == -EADDRNOTAVAIL && so->family == AF_INET6))
		rc = -EINVAL;
	return rc;
}

int tcp_sock_bind(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	struct inet_sock *so = inet_of(ref.sk);
	int rc = -EBADF;

	if (!control_lock())
		return -EAGAIN;
	if (!sock_ref_valid(ref))
		goto unlock;
	rc = SOCK_KERNEL;
	if (sock_has_connection(so) && !so->bound)
		rc = bind_error(so, addr, len);
	if (so->bound || sock_has_connection(so))
		goto unlock; /* the kernel returns the error */
	rc = sys_bind(sock_twin(&so->sk), addr, len);
	if (rc)
		goto unlock;
	rc = sock_read_local(so);
	so->bound = true;
	so->bound_addr = !addr_is_any(&so->local.addr);
	if (!rc && addr_needs_scope(&so->local.addr))
		rc = sock_follow_device(so);
	if (!rc && addr_is_loopback(&so->local.addr) && !params.local)
		rc = sock_leave(so, VERDICT_LOOPBACK);
	else if (rc)
		rc = sock_fall_back(so, VERDICT_FAMILY);
unlock:
	control_unlock();
	return rc;
}

/* ---- connecting (control lock) ------------------------------------------------------ */

/* What an earlier connect(2) has achieved. */
enum connect_stage { CONNECT_NEW, CONNECT_UNDER_WAY, CONNECT_SUCCEEDED };

/* holder: takes the error of a connection that failed, for the call that reports it. */
static int connect_take_error(struct inet_sock *so)
{
	int error = sock_take_error(so);

	return error ? -error : -ECONNABORTED;
}

/* holder: a connect_stage, or the error of the call. */
static int connect_check(struct inet_sock *so, struct ring *ring)
{
	if (so->inet == INET_LISTEN)
		return -EISCONN;
	if (!sock_has_connection(so))
		return CONNECT_NEW;
	ring_poll(ring);
	if (!sock_life_is(so, LIFE_CONNECTING))
		return -EISCONN; /* also after it has ended: only AF_UNSPEC disconnects it */
	if (sock_is_connecting(so))
		return CONNECT_UNDER_WAY;
	if (sock_has_ended(so))
		return connect_take_error(so);
	sock_life_set(so, LIFE_CONNECTED);
	return CONNECT_SUCCEEDED;
}

/* Reserves a local port at the source address of the route. */
static int reserve_port(struct inet_sock *so, const struct dst_found *found,
			const struct endpoint *to)
{
	int rc = 0;

	/* After IP_BIND_ADDRESS_NO_PORT a socket may be bound, but have no port yet. */
	if (!so->bound || !so->local.port) {
		rc = local_port_reserve(so, found->ring, &found->src, to);
		so->bound |= !rc;
	}
	if (!rc && addr_is_any(&so->local.addr)) {
		so->local.addr = found->src;
		so->local.scope = ring_scope(found->ring, &found->src);
	}
	return rc == -EADDRINUSE ? -EADDRNOTAVAIL : rc;
}

/* holder: discards the connection.  Only the bound port stays. */
static void connect_discard(struct inet_sock *so, struct ring *ring)
{
	wheel_cancel(&ring->wheel, &so->tcp.timer);
	list_remove(&so->tcp.flush.link);
	ring_flow_del(ring, &so->tcp.flow);
	dst_fini(&so->tcp.dst);
	tcp_filter_end(so);
	tcp_close(&so->tcp.conn, ring->now); /* frees unread data */
	tcp_part_init(so);
	if (sock_has_connection(so))
		sock_life_set(so, LIFE_OPEN);
	so->shut_rd = false;
	so->shut_wr = false;
	if (!so->bound_addr) { /* the next route may have another one */
		so->local.addr = sock_addr_any(so);
		so->local.scope = 0;
	}
}

void tcp_disconnect(struct inet_sock *so, struct ring *ring)
{
	int error = sock_has_ended(so) ? so->tcp.error : ECONNRESET;

	tcp_filter_end(so);
	if (!sock_has_ended(so))
		tcp_abort(&so->tcp.conn, 0, clock_now());
	connect_discard(so, ring);
	so->tcp.error = error;
	tcp_update_events(so, EPOLLHUP | (error ? EPOLLERR : 0u));
}

/* holder: connect(2) has reported the error, and the socket can be connected again. */
static void connect_discard_failed(struct inet_sock *so, struct ring *ring)
{
	if (!sock_has_connection(so) || !sock_has_ended(so))
		return;
	connect_discard(so, ring);
	tcp_update_events(so, 0);
}

struct flow_key tcp_pair_key(const struct inet_sock *so, const struct endpoint *to)
{
	struct flow_key key;

	memset(&key, 0, sizeof(key));
	key.local = so->local.addr;
	key.local_port = so->local.port;
	key.remote = to->addr;
	key.remote_port = to->port;
	key.proto = IPPROTO_TCP;
	return key;
}

/* holder: no other connection of the ring may use the key; a TIME_WAIT that uses it may end. */
static int claim_pair(struct ring *ring, const struct flow_key *key, uint32_t *iss, nsec_t now)
{
	struct flow *other = flow_lookup(&ring->flows, key);

	return other ? timewait_reuse(ring, other, iss, now) : 0;
}

/* As claim_pair(), on any ring of the interface. */
static int claim_pair_anywhere(int ifindex, const struct flow_key *key, uint32_t *iss)
{
	struct ring *ring = rings_find_flow(ifindex, key);
	int rc;

	if (!ring || !ring_hold_cold(ring))
		return 0;
	rc = claim_pair(ring, key, iss, clock_now());
	ring_release_cold(ring);
	return rc;
}

/* holder of the new home: adds the flow, builds the headers, sends the SYN. */
static int connect_start(struct inet_sock *so, struct ring *ring, const struct dst_found *found,
			 const struct endpoint *to, struct tcp_start from)
{
	struct tcp_config config =
		tcp_config_for_route(so->opt, found->ring, found->mtu, &found->metrics, &to->addr);
	struct dst_headers headers;
	nsec_t now = clock_now();
	int rc;

	so->remote = *to;
	headers = tcp_headers(so);
	rc = dst_apply(&so->tcp.dst, ring, to, found, &headers);
	if (rc)
		return rc;
	so->tcp.flow.key = tcp_pair_key(so, to);
	rc = claim_pair(ring, &so->tcp.flow.key, &from.iss, now);
	if (rc)
		return rc;
	so->tcp.flow.alone = !so->opt->reuseaddr && !so->opt->reuseport;
	rc = ring_flow_add(ring, &so->tcp.flow);
	if (rc)
		return rc;
	tcp_init(&so->tcp.conn, &tcp_sock_engine_ops, &config);
	sock_life_set(so, LIFE_CONNECTING);
	tcp_apply_options(so, now);
	rc = tcp_connect(&so->tcp.conn, from, now);
	if (!rc)
		rc = filter_connect(so);
	tcp_update_events(so, 0);
	tcp_after(so, ring);
	return rc;
}

/* Makes `to` the home of a socket that has no state on its ring yet. */
static int connect_set_home(struct inet_sock *so, struct ring *to)
{
	struct ring *from;
	int rc = sock_hold_cold(sock_ref_of(so), &from);

	if (rc)
		return rc;
	if (from != to)
		sock_set_home(so, to);
	sock_access_init(so);
	ring_release_cold(from);
	sock_stats_begin(so, false);
	return 0;
}

static int connect_start_at_home(struct inet_sock *so, const struct dst_found *found,
				 const struct endpoint *to, struct tcp_start from)
{
	struct ring *ring;
	int rc = sock_hold_cold(sock_ref_of(so), &ring);

	if (rc)
		return rc;
	rc = connect_start(so, ring, found, to, from);
	if (rc)
		connect_discard(so, ring);
	else
		ring_keep_up(ring);
	ring_release_cold(ring);
	return rc;
}

/*
 * Gives the socket its home and begins the connection there. shared: the program chose the port,
 * so other sockets of the process may use it. Even if the library chose the port, the key may be
 * in use: the interface's port reports that by -EEXIST.
 */
static int connect_set_home_and_start(struct inet_sock *so, const struct dst_found *found,
				      const struct endpoint *to, bool shared)
{
	struct flow_key key = tcp_pair_key(so, to);
	struct tcp_start from = tcp_start_of(host_secret(), &so->local, to, clock_now());
	int rc = shared ? claim_pair_anywhere(found->ring->ifindex, &key, &from.iss) : 0;

	if (!rc)
		rc = connect_set_home(so, sock_rx_ring_beside(so, found->ring));
	if (!rc)
		rc = connect_start_at_home(so, found, to, from);
	if (rc != -EEXIST)
		return rc;
	rc = claim_pair_anywhere(found->ring->ifindex, &key, &from.iss);
	if (!rc)
		rc = connect_start_at_home(so, found, to, from);
	return rc == -EEXIST ? -EADDRNOTAVAIL : rc; /* another process uses the key */
}

/*
 * Do answers arrive by another interface?  The program bound the socket to an address of an
 * interface other than the route's, and a connection receives from one interface only.  Loopback
 * addresses do not count.
 */
static bool answered_elsewhere(const struct inet_sock *so, const struct dst_found *found)
{
	int ifindex = so->bound_addr ? link_of_endpoint(&so->local) : 0;
	struct link link;

	return ifindex && ifindex != found->ring->ifindex && !link_get(ifindex, &link) &&
	       !link.loopback;
}

static int connect_begin(struct inet_sock *so, const struct endpoint *to)
{
	struct dst_query query = sock_way_query(so, to, so->bound ? so->local.addr : addr_v4_any());
	bool chosen = so->bound && so->local.port;
	struct dst_found found;
	int rc;

	sock_tx_query(so, &query);
	dst_find(&query, &found);
	if (found.verdict == VERDICT_ACCELERATED && answered_elsewhere(so, &found))
		found.verdict = VERDICT_INTERFACE;
	if (found.verdict == VERDICT_ACCELERATED && sock_stamps_by_kernel(so, found.ring))
		found.verdict = VERDICT_OPTION;
	if (found.verdict == VERDICT_ACCELERATED && found.metrics.cc == ROUTE_CC_UNKNOWN)
		found.verdict = VERDICT_ROUTE; /* as if the program had set TCP_CONGESTION */
	rc = SOCK_KERNEL;
	if (found.verdict == VERDICT_LOOPBACK && sock_upcalls.local_connect)
		rc = sock_upcalls.local_connect(so, to);
	if (rc != SOCK_KERNEL)
		return rc;
	if (found.verdict != VERDICT_ACCELERATED || addr_is_multicast(&to->addr)) {
		rc = sock_fall_back(so, found.verdict);
		return rc ? rc : SOCK_KERNEL;
	}
	rc = reserve_port(so, &found, to);
	if (!rc)
		rc = connect_set_home_and_start(so, &found, to, chosen);
	if (rc == -ENOSPC || rc == -EAFNOSUPPORT) { /* the port cannot steer its frames */
		rc = sock_fall_back(so, VERDICT_FLOW);
		return rc ? rc : SOCK_KERNEL;
	}
	if (!rc) {
		so->verdict = VERDICT_ACCELERATED;
		dst_resolve_neighbour(&found);
	}
	return rc;
}

/* AF_UNSPEC. 0, or SOCK_KERNEL: call the twin. */
static int disconnect_locked(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc;

	if (so->inet == INET_LISTEN) { /* stops listening */
		rc = sock_leave(so, VERDICT_STOPPED);
		return rc ? rc : SOCK_KERNEL;
	}
	if (!sock_has_connection(so))
		return SOCK_KERNEL;
	sock_stats_end(so);
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	tcp_disconnect(so, ring);
	ring_release_cold(ring);
	return 0;
}

/* May acceleration serve the connection?  VERDICT_ACCELERATED, or why not. */
static enum verdict connect_verdict(struct inet_sock *so, const struct endpoint *to)
{
	struct endpoint none = {.addr = addr_v4_any()};

	if (addr_is_any(&to->addr))
		return VERDICT_LOOPBACK;
	if (!sock_may_reach(so, to, 0))
		return VERDICT_FAMILY;
	if (rules_ask(so, CONF_TCP_CLIENT, to, so->bound ? &so->local : &none) == CONF_OS)
		return VERDICT_RULE;
	return to->port ? sock_start_for(so) : VERDICT_CALL;
}

/* A connect_stage, CONNECT_NEW if it has begun now; or the error of the call. */
static int connect_locked(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	struct inet_sock *so = inet_of(ref.sk);
	enum verdict verdict;
	struct endpoint to;
	struct ring *ring;
	int rc;

	sock_upcalls.move_settle(so);
	sock_twin_prepare(so);
	if (addr->sa_family == AF_UNSPEC)
		return disconnect_locked(ref);
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	rc = connect_check(so, ring);
	if (rc < 0 && sock_life_is(so, LIFE_CONNECTING))
		connect_discard_failed(so, ring);
	ring_release_cold(ring);
	if (rc)
		return rc;
	if (addr->sa_family != so->family || !sock_addr_read(so, &to, addr, len))
		return SOCK_KERNEL; /* the kernel returns the right error */
	rc = sock_bind_to_scope(so, &to);
	if (rc)
		return rc;
	verdict = connect_verdict(so, &to);
	if (verdict != VERDICT_ACCELERATED) {
		rc = sock_fall_back(so, verdict);
		return rc ? rc : SOCK_KERNEL;
	}
	return connect_begin(so, &to);
}

/* Is the handshake over? *n: 0, or why it failed. */
static bool connect_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct inet_sock *so = arg;

	(void)wait;
	ring_poll(ring);
	*n = SOCK_TRY_WAIT;
	if (sock_has_connection(so) && sock_is_connecting(so))
		return false;
	*n = 0;
	if (sock_has_connection(so) && sock_has_ended(so))
		*n = connect_take_error(so);
	else if (sock_life_is(so, LIFE_CONNECTING))
		sock_life_set(so, LIFE_CONNECTED);
	return true;
}

static void connect_discard_refused(struct sock_ref ref)
{
	struct ring *ring;

	if (!control_lock())
		return;
	if (!sock_hold_cold(ref, &ring)) {
		connect_discard_failed(inet_of(ref.sk), ring);
		ring_release_cold(ring);
	}
	control_unlock();
}

int tcp_sock_connect(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	struct inet_sock *so = inet_of(ref.sk);
	/* The timeout begins now, because opening an interface takes time. */
	struct sock_call call = SOCK_CALL(ref, 0, EPOLLOUT);
	int rc = -EBADF, unfinished;
	bool local = false;

	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref)) {
		rc = connect_locked(ref, addr, len);
		local = so->inet == INET_LOCAL;
	}
	control_unlock();
	if (rc < 0 || addr->sa_family == AF_UNSPEC)
		return rc;
	if (rc == CONNECT_SUCCEEDED)
		return 0;
	if (local)
		return sock_upcalls.local_connect_wait(ref, &call);
	unfinished = rc == CONNECT_UNDER_WAY ? -EALREADY : -EINPROGRESS;
	if (call.dontwait)
		return unfinished;
	rc = (int)sock_wait_loop(call, SOCK_WAIT_COLD, connect_try, NULL, so);
	if (rc == -EAGAIN)
		return unfinished;
	if (rc && rc != -EINTR)
		connect_discard_refused(ref);
	return rc;
}
