/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capture: copies of all frames that rings receive and send go to memory that another process
 * reads (base/stats/capture.h).
 *
 * A ring that is captured has another table of operations: rx_burst and tx_put copy, and call
 * those of the port.  Without a capture not one instruction is executed for it.
 *
 * Role		as each function says.
 * Lifetime	from ring_capture_start() to ring_capture_stop().  A forked child has none.
 * Progress	a frame costs one copy; a full lane costs less.
 */
#ifndef RING_CAPTURE_H
#define RING_CAPTURE_H

#include "ring/ring.h"

/*
 * control lock, no ring held: captures all open rings, and those that are opened later, until
 * ring_capture_stop().  snap: bytes kept of a frame; shift: see CAPTURE_SHIFT_MIN; both within
 * their bounds.  The descriptor of the memory, which is this module's; or -errno.
 */
int ring_capture_start(uint32_t snap, unsigned shift);
/* control lock, no ring held: does nothing without a capture. */
void ring_capture_stop(void);
/* any: a capture runs. */
bool ring_capture_runs(void);

/* holder, control lock: the ring was opened.  To close or retire it needs no call. */
void ring_capture_opened(struct ring *ring);

/*
 * holder: a frame that no port has, and that is made for the capture; sent: by this process.  Does nothing
 * if the ring is not captured.
 */
void ring_capture_put(struct ring *ring, const uint8_t *frame, uint32_t len, bool sent);

/* In a forked child, where no other thread exists: the capture is the parent's. */
void ring_capture_forget(void);

#endif
