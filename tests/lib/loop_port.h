/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loop-back port with the manners of the real one, and with switches.
 *
 * A group's frames come to one queue only (-EEXIST for a second one).  A segment
 * that nobody has a flow for is answered with a reset, as the kernel would.
 *
 * Role		switches: any thread, at any time.
 */
#ifndef TESTS_LIB_LOOP_PORT_H
#define TESTS_LIB_LOOP_PORT_H

#include <stdbool.h>

#include "ring/port.h"

/* Opener for rings_init(); loop_port_mtu is read once. */
extern uint32_t loop_port_mtu;
int loop_port_open(int ifindex, struct port **port, char why[PORT_WHY]);

/* While shut, barriers wait (ten seconds at most); how many came there so far. */
void loop_port_gate(bool shut);
unsigned loop_port_barriers(void);

/* The next n queues cannot be opened. */
void loop_port_fail_opens(int n);
/* The next n flows cannot be moved to another queue. */
void loop_port_fail_moves(int n);

/* Each frame that is sent: true loses it.  Called by holders; NULL: none. */
void loop_port_lose(bool (*lose)(const struct pkt *pkt));

/* What another process has: true.  NULL: there is none. */
void loop_port_share(bool (*is_foreign)(const struct flow_key *key));

/* In a forked child: nothing of the parent's is there; the gate is open. */
void loop_port_forget(void);

/* Queues that are open now. */
int loop_port_queues(void);
/* Of all queues that were closed: were there packets missing? */
bool loop_port_leaked(void);

#endif
