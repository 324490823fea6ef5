/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/local/local.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/log.h"
#include "base/param.h"
#include "base/image/sections.h"
#include "base/sys.h"
#include "sock/core/control.h"
#include "sock/local/local_link.h"
#include "sock/local/local_sock.h"

static local_handler *const none[LOCAL_KINDS];
static local_handler *const *handlers EARLY_DATA = none; /* set before any other thread runs */

static bool failed;  /* control lock: it does not take part, and does not try again */
static uid_t user;   /* control lock: the effective user when it began */
static bool by_ways; /* control lock: local_take_way() was called */

EARLY_CODE void local_init(local_handler *const *of_messages)
{
	handlers = of_messages;
}

static bool start(void)
{
	int rc = getauxval(AT_SECURE) ? -EPERM : local_links_start(by_ways ? "" : NULL, handlers);

	if (!rc) {
		user = sys_geteuid();
		return true;
	}
	log_debug("no connection of this process goes through shared memory: %s",
		  strerrordesc_np(-rc));
	failed = true;
	return false;
}

bool local_available(void)
{
	control_assert_held();
	if (!params.local || failed)
		return false;
	if (!local_links_started())
		return start();
	if (user == sys_geteuid())
		return true;
	local_unprivileged();
	return false;
}

void local_unprivileged(void)
{
	control_assert_held();
	failed = true;
	if (local_links_started())
		local_links_hide();
}

bool local_is_over(void)
{
	control_assert_held();
	return local_links_started() && !local_available();
}

bool local_take_way(const struct local_way *way)
{
	control_assert_held();
	if (!by_ways)
		segment_accept_of(user);
	failed = false;
	by_ways = true;
	return local_links_use_way(way);
}

void local_fork_child(void)
{
	local_links_forget();
}

/* Asked each time: the port may be of a socket that is younger than what the namespace says now. */
bool local_may_be_low(uint16_t port)
{
	if (!port || !sys_geteuid())
		return port;
	return ntohs(port) >=
	       sys_read_number("/proc/sys/net/ipv4/ip_unprivileged_port_start", LOCAL_LOW_PORTS);
}
