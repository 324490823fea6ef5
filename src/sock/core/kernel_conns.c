/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/kernel_conns.h"

#include <string.h>

#include "base/log.h"
#include "net/netlink/sock_diag.h"
#include "sock/core/inet_sock.h"
#include "sock/core/port/strangers.h"

#define FIRST_LOOK (100 * NSEC_PER_MSEC) /* by then frames on their way to the kernel arrived */
/* States of the kernel: TCP_ESTABLISHED to TCP_NEW_SYN_RECV without TIME_WAIT and LISTEN. */
#define CONNECTED (0x1ffeu & ~(1u << 6) & ~(1u << 10))

static bool any_begun; /* control lock: some listener has kernel_conns.since set, or may have */
static nsec_t due;     /* see strangers_may() */

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

static void begin(struct inet_sock *so, bool passes)
{
	struct kernel_conns *conns = &so->listen.kernel;

	conns->since = clock_now();
	conns->look = conns->lasts ? NSEC_NEVER : conns->since + FIRST_LOOK;
	any_begun |= !conns->lasts;
	for (struct list *link = so->flows.next; passes && link != &so->flows; link = link->next)
		passes = strangers_open(addr_is_v4(&sock_flow_of(link)->flow.key.local));
	if (passes)
		__atomic_store_n(&conns->pass, KERNEL_CONNS_PASS_ALL, __ATOMIC_RELAXED);
}

/* Do frames of the kernel's connections come by one of its flows? */
static bool takes_conns(const struct inet_sock *so)
{
	list_for_each(link, &so->flows) {
		const struct port_queue *q = ring_queue(sock_flow_of(link)->ring);

		if (q && q->port->can.takes_conns)
			return true;
	}
	return false;
}

void kernel_conns_begin(struct inet_sock *so)
{
	bool takes = takes_conns(so);

	control_assert_held();
	so->listen.kernel.lasts |= takes && so->joins;
	begin(so, takes);
}

static bool takes_conns_at(const struct inet_sock *so, const struct inet_sock *conn)
{
	return so->inet == INET_LISTEN && so->local.port == conn->local.port && takes_conns(so);
}

static void begin_at_port(struct inet_sock *so, void *arg)
{
	if (takes_conns_at(so, arg))
		begin(so, true);
}

void kernel_conns_add(struct inet_sock *so)
{
	control_assert_held();
	sock_each(begin_at_port, so);
}

static void last_at_port(struct inet_sock *so, void *arg)
{
	if (!takes_conns_at(so, arg) || so->listen.kernel.lasts)
		return;
	so->listen.kernel.lasts = true;
	begin(so, true);
}

void kernel_conns_expect(struct inet_sock *so)
{
	control_assert_held();
	sock_each(last_at_port, so);
}

void kernel_conns_forget(void)
{
	control_assert_held();
	any_begun = false;
}

bool kernel_conns_pass(const struct inet_sock *listener, const struct ring *ring, struct pkt *pkt)
{
	/* Relaxed: it guards nothing; strangers_give() finds out what is open. */
	uint8_t pass = __atomic_load_n(&listener->listen.kernel.pass, __ATOMIC_RELAXED);

	return pass != KERNEL_CONNS_PASS_NONE &&
	       (pass == KERNEL_CONNS_PASS_ALL || strangers_may(&due, clock_now())) &&
	       strangers_give(ring, pkt);
}

/*
 * The kernel has no connections any more: few frames of the listener are passed to it, by any holder
 * who takes one of its rings after this.
 */
static void stop_passing(struct inet_sock *so)
{
	so->listen.kernel.since = 0;
	if (so->listen.kernel.pass) /* relaxed: the holds below order it */
		__atomic_store_n(&so->listen.kernel.pass, KERNEL_CONNS_PASS_SOME, __ATOMIC_RELAXED);
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
	round->left |= conns->since && !conns->lasts;
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
