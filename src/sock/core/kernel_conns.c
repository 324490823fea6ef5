/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/kernel_conns.h"

#include <string.h>

#include "base/log.h"
#include "net/netlink/sock_diag.h"
#include "sock/core/inet_sock.h"

#define FIRST_LOOK (100 * NSEC_PER_MSEC) /* by then frames on their way to the kernel arrived */
/* States of the kernel: TCP_ESTABLISHED to TCP_NEW_SYN_RECV without TIME_WAIT and LISTEN. */
#define CONNECTED (0x1ffeu & ~(1u << 6) & ~(1u << 10))

static bool any_begun; /* control lock: some listener has kernel_conns.since set, or may have */

/* ---- what the kernel has --------------------------------------------------------------- */

static int add_port(const struct diag_socket *socket, void *arg)
{
	uint64_t *set = arg;

	set[socket->port / 64] |= UINT64_C(1) << (socket->port % 64);
	return 0;
}

int kernel_ports_read(uint64_t set[KERNEL_PORTS_WORDS])
{
	struct diag_query query = {.family = AF_INET, .protocol = IPPROTO_TCP, .states = CONNECTED};
	int rc;

	memset(set, 0, KERNEL_PORTS_WORDS * sizeof(*set));
	rc = diag_each(&query, add_port, set);
	query.family = AF_INET6;
	if (!rc && diag_each(&query, add_port, set))
		log_debug("the kernel does not tell of its connections of IPv6");
	return rc;
}

/* ---- listeners -------------------------------------------------------------------------- */

void kernel_conns_begin(struct inet_sock *so)
{
	struct kernel_conns *conns = &so->listen.kernel;

	control_assert_held();
	conns->since = clock_now();
	conns->look = conns->since + FIRST_LOOK;
	any_begun = true;
}

/* The kernel has no connections any more: no frames of the listener are passed to it. */
static void stop_passing(struct inet_sock *so)
{
	so->listen.kernel.since = 0;
	list_for_each(link, &so->flows) {
		struct sock_flow *f = sock_flow_of(link);

		if (!ring_hold_cold(f->ring)) {
			so->listen.kernel.since = so->listen.kernel.look;
			continue;
		}
		ring_flow_kernel_done(f->ring, &f->flow);
		ring_release_cold(f->ring);
	}
}

struct round {
	nsec_t now;
	bool due, left;
};

static void find_due(struct inet_sock *so, void *arg)
{
	struct round *round = arg;

	if (so->inet == INET_LISTEN && so->listen.kernel.since)
		round->due |= so->listen.kernel.look <= round->now;
}

static uint64_t ports[KERNEL_PORTS_WORDS]; /* internal thread */

/* If the kernel still has connections, it is asked again when kernel_conns is twice as old. */
static void look_at(struct inet_sock *so, void *arg)
{
	struct round *round = arg;
	struct kernel_conns *conns = &so->listen.kernel;

	if (so->inet != INET_LISTEN || !conns->since)
		return;
	if (conns->look <= round->now && !kernel_ports_has(ports, so->local.port))
		stop_passing(so);
	else if (conns->look <= round->now)
		conns->look = round->now + (round->now - conns->since);
	round->left |= conns->since != 0;
}

bool kernel_conns_due(nsec_t now)
{
	struct round round = {.now = now};

	control_assert_held();
	if (any_begun)
		sock_each(find_due, &round);
	return round.due;
}

void kernel_conns_look(nsec_t now)
{
	struct round round = {.now = now};

	/*
	 * Without the control lock, because a host with many connections takes long to answer.
	 * After an error every port counts as having connections.
	 */
	if (kernel_ports_read(ports))
		memset(ports, 0xff, sizeof(ports));
	if (!control_trylock())
		return; /* the listeners are still due */
	sock_each(look_at, &round);
	any_begun = round.left;
	control_unlock();
}
