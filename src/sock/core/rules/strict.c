/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/rules/strict.h"

#include <errno.h>

#include "base/log.h"
#include "base/param.h"
#include "sock/core/inet_sock.h"
#include "sock/core/rules/rules.h"

#define TOLD_MAX 64 /* sockets whose line is not repeated */

/* Control lock: a program may try again and again. */
static bool is_told(const struct inet_sock *so)
{
	static uint64_t told[TOLD_MAX]; /* a ring: the oldest entry is overwritten */
	static unsigned n;

	for (unsigned i = 0; i < TOLD_MAX; i++)
		if (told[i] == so->id)
			return true;
	told[n++ % TOLD_MAX] = so->id;
	return false;
}

bool strict_forbids(const struct inet_sock *so, enum verdict verdict)
{
	return (params.strict || so->must) && verdict_is_fallback(verdict);
}

int strict_check(const struct inet_sock *so, enum conf_says says, enum verdict verdict)
{
	control_assert_held();
	if (says != CONF_MUST)
		return 0;
	if (verdict == VERDICT_NO_ROUTE) /* not by the kernel either, should it find one now */
		return -ENETUNREACH;
	if (!verdict_is_fallback(verdict))
		return 0;
	if (!is_told(so))
		log_error("fd %d: %s; it must be accelerated (%s%s), so the call fails",
			  sock_twin(&so->sk), verdict_text(verdict),
			  params.strict ? "VMA_STRICT" : "must in ",
			  params.strict ? "" : rules_file());
	return -EOPNOTSUPP;
}

int sock_fall_back(struct inet_sock *so, enum verdict reason)
{
	int rc = strict_check(so, params.strict || so->must ? CONF_MUST : CONF_VMA, reason);

	return rc ? rc : sock_leave(so, reason);
}
