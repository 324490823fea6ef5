/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/kernel_conns.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <string.h>

#include "base/log.h"
#include "base/sys.h"
#include "sock/core/inet_sock.h"

#define FIRST_LOOK (100 * NSEC_PER_MSEC) /* by then frames on their way to the kernel arrived */
/* States of the kernel: TCP_ESTABLISHED to TCP_NEW_SYN_RECV without TIME_WAIT and LISTEN. */
#define CONNECTED (0x1ffeu & ~(1u << 6) & ~(1u << 10))

static bool any_begun; /* control lock: some listener has kernel_conns.since set, or may have */

/* ---- what the kernel has --------------------------------------------------------------- */

/* Adds the ports of one message from the kernel.  1: more follow; 0: it was the last; -errno. */
static int add_ports(const char *answer, size_t len, uint64_t ports[KERNEL_PORTS_WORDS])
{
	struct nlmsghdr head;
	struct inet_diag_msg msg;

	for (size_t at = 0; at + sizeof(head) <= len; at += NLMSG_ALIGN(head.nlmsg_len)) {
		memcpy(&head, answer + at, sizeof(head));
		if (head.nlmsg_type == NLMSG_DONE)
			return 0;
		if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || head.nlmsg_len > len - at ||
		    head.nlmsg_len < NLMSG_LENGTH(sizeof(msg)))
			return -EPROTO;
		memcpy(&msg, answer + at + NLMSG_HDRLEN, sizeof(msg));
		ports[msg.id.idiag_sport / 64] |= UINT64_C(1) << (msg.id.idiag_sport % 64);
	}
	return 1;
}

static int read_family(int fd, uint8_t family, uint64_t ports[KERNEL_PORTS_WORDS])
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 req;
	} question = {
		.head = {.nlmsg_len = sizeof(question),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.req = {.sdiag_family = family,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_states = CONNECTED},
	};
	char answer[16384] __attribute__((aligned(8)));
	ssize_t n = sys_write(fd, &question, sizeof(question));
	int rc = 1;

	while (n >= 0 && rc > 0) {
		n = sys_read(fd, answer, sizeof(answer)); /* does not block */
		if (n > 0)
			rc = add_ports(answer, (size_t)n, ports);
	}
	return n < 0 ? (int)n : rc;
}

int kernel_ports_read(uint64_t ports[KERNEL_PORTS_WORDS])
{
	int fd = sys_fd_hide(sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
	int rc;

	memset(ports, 0, KERNEL_PORTS_WORDS * sizeof(*ports));
	if (fd < 0)
		return fd;
	rc = read_family(fd, AF_INET, ports);
	if (!rc && read_family(fd, AF_INET6, ports))
		log_debug("the kernel does not tell of its connections of IPv6");
	sys_close(fd);
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
