/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/param.h"
#include "base/image/sections.h"
#include "sock/core/control.h"

/* The values of VMA_EXCEPTION_HANDLING. */
enum exception { EXIT = -2, QUIET = -1, LEAVE = 0, LEAVE_LOUDLY = 1, REFUSE = 2, ABORT = 3 };

const char *verdict_text(enum verdict verdict)
{
	static const char *const texts[] = {
#define X(name, text) text,
		VERDICT_LIST(X)
#undef X
	};

	return texts[verdict];
}

unsigned verdict_counts[VERDICT_COUNT];

void verdict_count(enum verdict verdict)
{
	__atomic_fetch_add(&verdict_counts[verdict], 1, __ATOMIC_RELAXED);
}

bool verdict_is_fallback(enum verdict verdict)
{
	switch (verdict) {
	case VERDICT_UNDECIDED:
	case VERDICT_ACCELERATED:
	case VERDICT_LOCAL:
	case VERDICT_DISABLED:
	case VERDICT_LOOPBACK:
	case VERDICT_NO_ROUTE:
	case VERDICT_FORKED:
	case VERDICT_EXECUTED:
	case VERDICT_RULE:
	case VERDICT_DENIED:
	case VERDICT_STOPPED:
		return false;
	default:
		return true;
	}
}

/* One line, so that it is found in the log of a long life. */
EARLY_CODE static void log_fallbacks(void)
{
	char why[512] = "";
	unsigned total = 0;
	size_t len = 0;

	for (unsigned i = 0; i < VERDICT_COUNT; i++) {
		unsigned n = __atomic_load_n(&verdict_counts[i], __ATOMIC_RELAXED);

		if (!n || !verdict_is_fallback((enum verdict)i))
			continue;
		total += n;
		if (len < sizeof(why))
			len += (size_t)snprintf(why + len, sizeof(why) - len, "%s%u: %s",
						len ? "; " : "", n, verdict_text((enum verdict)i));
	}
	if (total)
		log_info("%u socket%s not accelerated (%s)", total, total == 1 ? " was" : "s were",
			 why);
}

EARLY_CODE void verdict_log_counts(void)
{
	log_fallbacks();
	for (unsigned i = 0; i < VERDICT_COUNT; i++) {
		unsigned n = __atomic_load_n(&verdict_counts[i], __ATOMIC_RELAXED);

		if (n)
			log_debug("%u socket%s: %s", n, n == 1 ? "" : "s",
				  verdict_text((enum verdict)i));
	}
}

bool verdict_unsupported(int fd, bool possible, const char *fmt, ...)
{
	enum exception mode = (enum exception)params.exception_handling;
	bool leaves = possible && mode < REFUSE;
	char what[160];
	va_list args;

	control_assert_no_ring();
	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	log_at(mode >= LEAVE_LOUDLY ? LOG_ERROR : LOG_DEBUG,
	       "fd %d: %s: only the kernel can do it%s", fd, what,
	       leaves ? "" : ", and the socket is accelerated: refused");
	if (mode == ABORT)
		abort();
	return leaves;
}

void verdict_start_failed(void)
{
	if (params.exception_handling == EXIT)
		exit(EXIT_FAILURE);
}
