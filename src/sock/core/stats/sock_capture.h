/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starts and ends the capture of frames (ring/capture.h) as `vma capture` asks.
 *
 * The tool keeps a lock on the page of statistics while it captures.  The kernel releases the lock
 * when the tool ends, however it ends, and then the capture ends, too.
 */
#ifndef SOCK_CORE_STATS_SOCK_CAPTURE_H
#define SOCK_CORE_STATS_SOCK_CAPTURE_H

#include <stdbool.h>

#include "base/clock.h"

/* internal thread, between rounds, no ring held.  True: call again soon. */
bool sock_capture_run(nsec_t now);

#endif
