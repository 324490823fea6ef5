/* SPDX-License-Identifier: BSD-2-Clause */
/* The interfaces that sockets may use, and their rings. */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/param.h"
#include "sock/core/access.h"
#include "sock/core/kind.h"
#include "sock/core/rules/rules.h"

#define LEFT_LINKS_MAX 64 /* interfaces whose line is not repeated */

/* Control lock: logs, once for each interface, that it is left to the kernel on purpose. */
static void log_link_left(enum log_level level, int ifindex, const char *why)
{
	static int told[LEFT_LINKS_MAX]; /* a ring: the oldest entry is overwritten */
	static unsigned n;

	control_assert_held();
	for (unsigned i = 0; i < LEFT_LINKS_MAX; i++)
		if (told[i] == ifindex)
			return;
	told[n++ % LEFT_LINKS_MAX] = ifindex;
	log_at(level, "%.*s", (int)strcspn(why, "\n"), why);
}

enum verdict sock_link_verdict(const struct link *link)
{
	char why[PORT_WHY];
	unsigned line;

	control_assert_held();
	control_assert_no_ring();
	if (!link->up || link->loopback)
		return VERDICT_INTERFACE;
	if (!rules_allow_interface(link->name, &line)) {
		snprintf(why, sizeof(why), "%s is left to the kernel: %s:%u denies it", link->name,
			 rules_file(), line);
		log_link_left(LOG_DETAILS, link->ifindex, why);
		return VERDICT_DENIED;
	}
	if (ports_take(link, why))
		return VERDICT_ACCELERATED;
	log_link_left(LOG_INFO, link->ifindex, why);
	return VERDICT_INTERFACE;
}

/* A framed warning: the interface cannot be accelerated, and the kernel serves its sockets. */
static void warn_port(int ifindex, const char *why)
{
	struct link link;

	if (link_get(ifindex, &link))
		link.name[0] = '\0';
	log_box(LOG_WARNING,
		"Interface %s will not be offloaded.\n%s"
		"Sockets that use it run through the kernel.",
		link.name, why);
}

/* Without privileges connections on this host are accelerated still: that is no warning. */
static void tell_local_only(const char *why)
{
	static bool told; /* control lock */

	if (!told)
		log_info("only connections on this host are accelerated: %.*s",
			 (int)strcspn(why, "\n"), why);
	told = true;
}

struct ring *sock_ring_for(int ifindex, uint64_t key)
{
	char why[PORT_WHY] = "";
	struct ring *ring;
	bool fresh;
	int rc;

	control_assert_held();
	control_assert_no_ring();
	rc = rings_get(ifindex, key, &ring, why, &fresh);
	if (fresh)
		sock_upcalls.port_opened();
	if (!rc)
		return ring;
	if (rc == -PORT_UNTRIED && fresh)
		log_link_left(LOG_INFO, ifindex, why);
	else if (rc == -EPERM && sock_upcalls.local_available())
		tell_local_only(why);
	else if (fresh)
		warn_port(ifindex, why);
	return NULL;
}

struct ring *sock_rx_ring(struct inet_sock *so, int ifindex, const struct inaddr *local)
{
	control_assert_held();
	control_assert_no_ring();
	return sock_ring_for(ifindex, sock_rx_key(so, local));
}

struct ring *sock_rx_ring_beside(struct inet_sock *so, struct ring *tx)
{
	struct ring *ring = sock_rx_ring(so, tx->ifindex, &so->local.addr);

	control_assert_no_ring();
	control_assert_held();
	return ring ? ring : tx;
}
