/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/stats/sock_capture.h"

#include <errno.h>

#include "base/stats/capture.h"
#include "base/stats/stats.h"
#include "ring/capture.h"
#include "sock/core/control.h"
#include "sock/core/kind.h"

#define LOOK_INTERVAL (250 * NSEC_PER_MSEC) /* between looks at the lock */

/* The descriptor of the memory, or -errno. */
static int start_or_stop(uint32_t argument)
{
	uint32_t snap = CAPTURE_SNAP(argument);
	unsigned shift = CAPTURE_SHIFT(argument);

	ring_capture_stop();
	if (!snap)
		return -ENODATA;
	if (shift < CAPTURE_SHIFT_MIN || shift > CAPTURE_SHIFT_MAX)
		return -EINVAL;
	/* Without the lock nothing would end the capture. */
	return stats_is_locked(CAPTURE_LOCK_BYTE) ? ring_capture_start(snap, shift) : -ENOLCK;
}

/* Does a capture run that nobody wants any more? */
static bool is_abandoned(nsec_t now)
{
	static nsec_t next; /* internal thread */

	if (!ring_capture_runs() || now < next)
		return false;
	next = now + LOOK_INTERVAL;
	return !stats_is_locked(CAPTURE_LOCK_BYTE);
}

bool sock_capture_run(nsec_t now)
{
	struct stats_page *page = stats_page();
	uint32_t argument;
	bool asked = stats_asked(STATS_CAPTURE, &argument);

	control_assert_no_ring();
	if (!asked && !is_abandoned(now))
		return false;
	if (!control_trylock())
		return true;
	__atomic_store_n(&page->capture_fd, start_or_stop(asked ? argument : 0), __ATOMIC_RELAXED);
	if (sock_upcalls.local_capture)
		sock_upcalls.local_capture();
	if (asked)
		stats_answer(STATS_CAPTURE);
	control_unlock();
	return false;
}
