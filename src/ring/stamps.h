/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Times of arrival.  Nobody pays for them before a socket of the process asks: then all rings receive
 * with them (PKT_ARRIVAL, port_ops.stamp), as the sockets of any ring may be those that want them.
 *
 * Role		control lock.
 * Lifetime	until the process ends; a forked child goes on.
 */
#ifndef RING_STAMPS_H
#define RING_STAMPS_H

#include "ring/ring.h"

/* no ring held: open rings, and those that are opened later, receive with times of arrival. */
void rings_stamp(void);
/* holder: the ring was opened. */
void ring_stamps_opened(struct ring *ring);
/* Tests: nobody has asked. */
void ring_stamps_forget(void);

#endif
