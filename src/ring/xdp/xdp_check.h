/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tools: can AF_XDP accelerate an interface, and how?
 *
 * Role		one thread, which has read the parameters.
 * Errors	-errno, and why: what happened, why, and what to do; lines end in \n.
 */
#ifndef RING_XDP_XDP_CHECK_H
#define RING_XDP_XDP_CHECK_H

#include "ring/port.h"

struct xdp_facts {
	char name[16];
	unsigned rx_queues;  /* 0: not known */
	unsigned max_queues; /* most that ethtool -L can set */
	bool combined;	     /* the queues also send ("combined" of ethtool -L) */
	bool carrier;	     /* true also when not known */
};

/*
 * Would port_xdp_open() serve the interface, for a process that has the capabilities?  Attaches
 * nothing.  master: the device that it may belong to; 0: none.  facts are filled in, except after
 * -ENODEV and -EXDEV.
 */
int xdp_check(int ifindex, int master, struct xdp_facts *facts, char why[PORT_WHY]);

/* Opens the interface as a program would, and closes it.  0: text, one line, says how it went. */
int xdp_try(int ifindex, int master, char text[PORT_WHY]);

/* any: is the capability among the effective ones? */
bool xdp_have_cap(unsigned cap);

#define XDP_CAPS_TEXT 64

/* any: does the process lack a capability that AF_XDP needs?  missing: their names. */
bool xdp_missing_caps(char missing[XDP_CAPS_TEXT]);

#endif
