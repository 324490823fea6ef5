/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/rules/strict.h"

#include <errno.h>

#include "base/log.h"
#include "base/param.h"
#include "sock/core/inet_sock.h"
#include "sock/core/rules/rules.h"

#define TOLD_MAX 64

/* Sockets, or interfaces, whose line is not repeated.  Control lock. */
struct told {
	uint64_t ids[TOLD_MAX]; /* a ring: the oldest entry is overwritten; none is 0 */
	unsigned n;
};

/* A program may try again and again. */
static bool is_told(struct told *told, uint64_t id)
{
	for (unsigned i = 0; i < TOLD_MAX; i++)
		if (told->ids[i] == id)
			return true;
	told->ids[told->n++ % TOLD_MAX] = id;
	return false;
}

bool strict_forbids(const struct inet_sock *so, enum verdict verdict)
{
	return (params.strict || so->must) && verdict_is_fallback(verdict);
}

int strict_check(const struct inet_sock *so, enum conf_says says, enum verdict verdict)
{
	static struct told told;

	control_assert_no_ring();
	control_assert_held();
	if (says != CONF_MUST)
		return 0;
	if (verdict == VERDICT_NO_ROUTE) /* not by the kernel either, should it find one now */
		return -ENETUNREACH;
	if (!verdict_is_fallback(verdict))
		return 0;
	if (!is_told(&told, so->id))
		log_error("fd %d: %s; it must be accelerated (%s%s), so the call fails",
			  sock_twin(&so->sk), verdict_text(verdict),
			  params.strict ? "VMA_STRICT" : "must in ",
			  params.strict ? "" : rules_file());
	return -EOPNOTSUPP;
}

void strict_warn_link(const struct inet_sock *so, enum conf_says says, const struct link *link,
		      enum verdict verdict)
{
	static struct told told;

	control_assert_no_ring();
	control_assert_held();
	if (says != CONF_MUST || !verdict_is_fallback(verdict) ||
	    (so->opt->bind_ifindex && so->opt->bind_ifindex != link->ifindex) ||
	    is_told(&told, (uint64_t)link->ifindex))
		return;
	log_warn("%s: %s; sockets on all addresses must be accelerated (%s%s), and the kernel "
		 "serves them there; \"interface deny %s\" in libvma.conf allows that",
		 link->name, verdict_text(verdict), params.strict ? "VMA_STRICT" : "must in ",
		 params.strict ? "" : rules_file(), link->name);
}

int sock_fall_back(struct inet_sock *so, enum verdict reason)
{
	int rc = strict_check(so, params.strict || so->must ? CONF_MUST : CONF_VMA, reason);

	control_assert_held();
	control_assert_no_ring();
	return rc ? rc : sock_leave(so, reason);
}
