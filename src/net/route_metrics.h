/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a route says about the packets and connections that use it (ip-route(8); RTAX_* of
 * linux/rtnetlink.h).
 *
 * Role		a value.
 */
#ifndef NET_ROUTE_METRICS_H
#define NET_ROUTE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#define ROUTE_CC_NONE 0u    /* the route names no congestion control */
#define ROUTE_CC_FIRST 1u   /* added to a number of tcp_cc_by_number() */
#define ROUTE_CC_UNKNOWN 7u /* one that only the kernel has; the largest value */

struct route_metrics {
	/* read when a connection begins; it keeps them when the route changes */
	uint32_t window;   /* bytes, the largest window to offer; 0: any */
	uint16_t advmss;   /* the MSS to announce; 0: that of the MTU */
	uint16_t initrwnd; /* segments, the first window to offer at most; 0: TCP's own */
	uint8_t cc;	   /* ROUTE_CC_*: its congestion control */
	bool cc_locked;	   /* ... which the program must not change */
	bool ecn;	   /* ask for ECN, whatever the host's setting is */
	/* of the present route */
	bool quickack;	   /* acknowledgements are not delayed */
	uint32_t rto_min;  /* msec; 0: TCP's own */
	uint16_t initcwnd; /* segments; 0: TCP's own */
	uint8_t hoplimit;  /* 0: the host's */
};

#endif
