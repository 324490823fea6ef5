/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loop-back port with the behaviour of the real one, and with switches.
 *
 * Frames of a multicast group reach one queue only (-EEXIST for a second one).  As the
 * kernel does, the port answers a segment without a flow with a reset.
 *
 * Role		switches: any thread, at any time.
 */
#ifndef TESTS_LIB_LOOP_PORT_H
#define TESTS_LIB_LOOP_PORT_H

#include <stdbool.h>

#include "ring/loop/port_loop.h"

/* For rings_init(); it reads loop_port_mtu once. */
extern uint32_t loop_port_mtu;
extern const struct port_kind loop_port_kind;

/* While closed, barriers wait (at most ten seconds). Returns how many have arrived so far. */
void loop_port_gate(bool shut);
unsigned loop_port_barriers(void);

/* Opening fails for the next n queues. */
void loop_port_fail_opens(int n);
/* Moving to another queue fails for the next n flows. */
void loop_port_fail_moves(int n);
/* This process may not take over the next n flows of others. */
void loop_port_fail_takes(int n);

/*
 * While it is late, queues do not show what arrives: the frames are on their way, until the next
 * barrier. That ends it.
 */
void loop_port_late(void);

/* Called by holders for each frame that is sent: true loses the frame. NULL: no losses. */
void loop_port_lose(bool (*lose)(const struct pkt *pkt));

/*
 * Called by holders for each large segment: 0 cuts it into frames, each of which may be lost as
 * above; an error refuses it. NULL: the port refuses all.
 */
void loop_port_large(int (*take)(const struct frame_large *large));

/* True for flows that another process has. NULL: there are none. */
void loop_port_share(bool (*is_foreign)(const struct flow_key *key));

/* In a forked child: forgets everything of the parent; the gate is open. */
void loop_port_forget(void);

/* The number of open queues. */
int loop_port_queues(void);
/* Did any queue that was closed miss packets? */
bool loop_port_leaked(void);

#endif
