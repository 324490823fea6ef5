/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether acceleration runs in this process.  It starts with the first socket that needs it. */
#include <errno.h>

#include "base/log.h"
#include "base/image/sections.h"
#include "net/netlink/netlink.h"
#include "sock/core/kind.h"
#include "sock/core/msg/family.h"
#include "sock/core/stats/sock_record.h"

struct sock_hooks sock_hooks EARLY_DATA;

static bool started;	  /* control lock to write, any to read, atomic */
static bool start_failed; /* control lock */

static const char *why_not_started(int rc)
{
	if (rc == -EMFILE || rc == -ENFILE)
		return "Too few descriptors (ulimit -n)";
	if (rc == -ENODATA)
		return "Nothing is random here: getrandom(2) is refused, and AT_RANDOM is missing";
	return "The internal thread or netlink cannot start";
}

bool sock_start(void)
{
	int rc;

	control_assert_held();
	if (sock_started() || start_failed)
		return sock_started();
	rc = sock_upcalls.start();
	if (rc) {
		start_failed = true;
		log_box(LOG_WARNING,
			"No socket of this process is accelerated.\n"
			"%s: %s\n"
			"The program runs through the kernel.",
			why_not_started(rc), strerror(-rc));
		verdict_start_failed();
		return false;
	}
	__atomic_store_n(&started, true, __ATOMIC_RELAXED);
	sock_record_start();
	if (sock_hooks.started)
		sock_hooks.started();
	progress_kick(); /* the internal thread must sleep on netlink, too, from now on */
	return true;
}

EARLY_CODE bool sock_started(void)
{
	return __atomic_load_n(&started, __ATOMIC_RELAXED);
}

void sock_stopped(bool for_good)
{
	control_assert_held();
	__atomic_store_n(&started, false, __ATOMIC_RELAXED);
	start_failed = start_failed || for_good;
}

static int namespaces_differ; /* any, atomic */

void sock_namespaces_differ(void)
{
	__atomic_store_n(&namespaces_differ, 1, __ATOMIC_RELAXED);
}

enum verdict sock_start_for(const struct inet_sock *so)
{
	control_assert_held();
	if (!sock_start())
		return VERDICT_NO_RESOURCES;
	if (!__atomic_load_n(&namespaces_differ, __ATOMIC_RELAXED))
		return VERDICT_ACCELERATED;
	return netlink_is_of(sock_twin(&so->sk)) ? VERDICT_ACCELERATED : VERDICT_NAMESPACE;
}

EARLY_CODE bool sock_start_failed(void)
{
	return start_failed;
}
