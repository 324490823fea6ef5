/* SPDX-License-Identifier: BSD-2-Clause */
/* UDP sockets: binding and connecting, and the flows that follow from both. */
#include <errno.h>

#include "base/log.h"
#include "base/param.h"
#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "sock/core/access.h"
#include "sock/core/msg/family.h"
#include "sock/core/rules/rules.h"
#include "sock/core/rules/strict.h"
#include "sock/core/stats/sock_stats.h"
#include "sock/udp/mcast.h"
#include "sock/udp/udp_sock.h"

/* ---- binding (control lock) ------------------------------------------------------------------ */

static void set_life(struct inet_sock *so, enum sock_life next)
{
	struct ring *ring;

	if (sock_life_is(so, next) || sock_hold_cold(sock_ref_of(so), &ring))
		return;
	sock_life_set(so, next);
	ring_release_cold(ring);
}

/* Is it connected to a local receiver?  Then no frames come. */
static bool is_connected_here(const struct inet_sock *so)
{
	return so->udp.local && so->udp.connected &&
	       (addr_is_loopback(&so->remote.addr) || link_of_endpoint(&so->remote));
}

/* The socket is bound, or bound to another address or peer: local senders reach it, too. */
static void attach_local(struct inet_sock *so)
{
	bool wire = so->verdict == VERDICT_ACCELERATED;

	if (!params.local)
		return;
	if (sock_upcalls.local_receive(so) && !wire)
		sock_set_local(so);
}

/*
 * Steers the frames of a bound socket here.  If that is not possible it is no error, unless
 * strict_check() says so: the twin receives, and the socket may still send.
 */
static int attach(struct inet_sock *so)
{
	int groups, rc;

	if (!sock_life_in(so, LIFE(OPEN) | LIFE(RECEIVING)))
		return 0; /* it left while the call waited for the lock */
	sock_port_claim(so);
	so->verdict = is_connected_here(so) ? VERDICT_LOOPBACK : sock_attach(so);
	attach_local(so);
	groups = mcast_attach(so);
	if (so->verdict != VERDICT_ACCELERATED)
		sock_port_unclaim(so);
	set_life(so, LIFE_RECEIVING);
	sock_stats_verdict(so);
	log_debug("fd %d: UDP %s", sock_twin(&so->sk), verdict_text(so->verdict));
	rc = strict_check(so, rules_ask_receiver(so), sock_told_verdict(so));
	return rc ? rc : groups;
}

/* 0: it has a port. */
static int get_port(struct inet_sock *so)
{
	int rc;

	control_assert_held();
	if (so->bound)
		return 0;
	rc = sock_read_local(so);
	if (!rc && !so->local.port) {
		rc = sock_twin_bind_any(so);
		if (!rc)
			rc = sock_read_local(so);
	}
	so->bound = !rc;
	return rc;
}

int udp_autobind(struct inet_sock *so)
{
	int rc = get_port(so);

	control_assert_held();
	return !rc && sock_life_is(so, LIFE_OPEN) ? attach(so) : rc;
}

int udp_begin_local(struct inet_sock *so)
{
	int rc = get_port(so);

	if (rc || !sock_life_is(so, LIFE_OPEN))
		return rc;
	if (!sock_upcalls.local_receive(so))
		return -ENODATA;
	sock_set_local(so);
	set_life(so, LIFE_RECEIVING);
	sock_stats_verdict(so);
	log_debug("fd %d: UDP %s", sock_twin(&so->sk), verdict_text(so->verdict));
	return 0;
}

static int do_bind(struct inet_sock *so, const struct sockaddr *addr, socklen_t len)
{
	int rc;

	sock_port_claim(so);
	rc = sys_bind(sock_twin(&so->sk), addr, len);
	if (rc)
		return rc;
	rc = sock_read_local(so);
	if (!rc && addr_needs_scope(&so->local.addr))
		rc = sock_follow_device(so);
	if (rc)
		return sock_fall_back(so, VERDICT_FAMILY);
	so->bound = true;
	so->bound_addr = !addr_is_any(&so->local.addr);
	if (addr_is_loopback(&so->local.addr) && !params.local)
		return sock_leave(so, VERDICT_LOOPBACK);
	/* At a loopback address, no frame is taken from another. */
	if (!addr_is_loopback(&so->local.addr) && rules_ask_receiver(so) != CONF_OS &&
	    sock_port_shared(so))
		return sock_fall_back(so, VERDICT_SHARED_PORT);
	rc = attach(so);
	if (!rc && addr_is_loopback(&so->local.addr) && so->verdict != VERDICT_LOCAL)
		return sock_leave(so, VERDICT_LOOPBACK);
	return rc;
}

int udp_bind(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	int rc = SOCK_KERNEL;

	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref) && !inet_of(ref.sk)->bound)
		rc = do_bind(inet_of(ref.sk), addr, len);
	control_unlock();
	return rc;
}

/* ---- connecting (control lock) ------------------------------------------------------------------ */

static void forget_flows(struct inet_sock *so)
{
	sock_flows_del(so);
	mcast_detach(so);
}

/* Removes the flows of the old peer, or those without a peer, and adds those of the new peer. */
static int retarget(struct inet_sock *so)
{
	forget_flows(so);
	return attach(so);
}

void udp_detach(struct inet_sock *so)
{
	control_assert_held();
	forget_flows(so);
}

void udp_attach_anew(struct inet_sock *so)
{
	control_assert_held();
	retarget(so);
}

void udp_reattach(struct inet_sock *so)
{
	control_assert_held();
	if (sock_life_is(so, LIFE_RECEIVING))
		retarget(so);
}

static int set_connected(struct inet_sock *so, bool connected, const struct endpoint *to)
{
	struct ring *ring;
	int rc = sock_hold_cold(sock_ref_of(so), &ring);

	if (rc)
		return rc;
	so->udp.connected = connected;
	if (connected)
		so->remote = *to;
	else
		memset(&so->remote, 0, sizeof(so->remote));
	dst_fini(&so->udp.dst);
	dst_expire(&so->udp.dst);
	ring_release_cold(ring);
	return 0;
}

/* connect(2) with AF_UNSPEC: any peer may send again. */
static int disconnect(struct inet_sock *so, const struct sockaddr *addr, socklen_t len)
{
	int rc = sys_connect(sock_twin(&so->sk), addr, len);

	if (rc || !so->udp.connected)
		return rc;
	rc = set_connected(so, false, NULL);
	if (!rc && so->opt->bind_ifindex) /* the kernel forgets that, too */
		rc = sock_follow_device(so);
	if (rc)
		return rc;
	/* The kernel forgets an address that it chose; an automatic port stays reserved. */
	rc = sock_read_local(so);
	so->bound = !rc && so->local.port != 0;
	if (so->bound)
		return retarget(so);
	forget_flows(so);
	set_life(so, LIFE_OPEN);
	return 0;
}

/* connect(2) of the twin succeeded, but the call fails with rc. */
static int connect_undo(struct inet_sock *so, int rc)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};

	disconnect(so, &none, sizeof(none));
	return rc;
}

/* The kernel serves the socket, or the call fails. */
static int connect_fall_back(struct inet_sock *so, enum verdict reason)
{
	int rc = sock_fall_back(so, reason);

	return rc ? connect_undo(so, rc) : 0;
}

/* May an accelerated receiver of this host have the address, now or later? */
static bool is_local_peer(struct inet_sock *so, const struct endpoint *to, enum verdict verdict)
{
	return verdict == VERDICT_LOOPBACK && params.local &&
	       sock_upcalls.local_may_connect(so, to);
}

static int do_connect(struct inet_sock *so, const struct sockaddr *addr, socklen_t len)
{
	enum verdict verdict;
	struct dst_query query;
	struct dst_found found;
	struct endpoint to, local = {.addr = addr_v4_any()};
	enum conf_says says;
	int rc;

	if (len >= sizeof(sa_family_t) && addr->sa_family == AF_UNSPEC)
		return disconnect(so, addr, len);
	rc = sys_connect(sock_twin(&so->sk), addr, len);
	if (rc)
		return rc;
	if (!sock_addr_read(so, &to, addr, len))
		return connect_fall_back(so, VERDICT_FAMILY);
	if (addr_needs_scope(&to.addr)) {
		rc = sock_follow_device(so);
		if (rc)
			return connect_undo(so, rc);
		to = sock_addr_shown(so, &to);
	}
	if (!sock_may_reach(so, &to, 0))
		return connect_fall_back(so, VERDICT_FAMILY);
	says = rules_ask(so, CONF_UDP_CONNECT, &to, so->bound ? &so->local : &local);
	if (says == CONF_OS)
		return sock_leave(so, VERDICT_RULE);
	verdict = sock_start_for(so);
	if (verdict != VERDICT_ACCELERATED)
		return connect_fall_back(so, verdict);
	query = sock_way_query(so, &to, so->bound_addr ? so->local.addr : addr_v4_any());
	sock_tx_query(so, &query);
	dst_find(&query, &found);
	if (found.verdict != VERDICT_ACCELERATED && !is_local_peer(so, &to, found.verdict))
		return connect_fall_back(so, found.verdict);
	rc = sock_read_local(so);
	if (rc)
		return rc;
	so->bound = true;
	rc = set_connected(so, true, &to);
	if (rc)
		return rc;
	if (found.verdict != VERDICT_ACCELERATED && sock_life_is(so, LIFE_OPEN) &&
	    !sock_upcalls.local_is_there(&to)) {
		rc = strict_check(so, says, found.verdict);
		return rc ? connect_undo(so, rc) : 0; /* the kernel serves it until one is there */
	}
	rc = retarget(so);
	if (!rc && found.verdict != VERDICT_ACCELERATED && so->verdict != VERDICT_LOCAL)
		return connect_fall_back(so, found.verdict);
	return rc ? connect_undo(so, rc) : 0;
}

int udp_connect(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	int rc = SOCK_KERNEL;

	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref))
		rc = do_connect(inet_of(ref.sk), addr, len);
	control_unlock();
	return rc;
}
