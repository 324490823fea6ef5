/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a route says about the packets and connections that use it (ip-route(8): hoplimit, initcwnd,
 * rto_min, quickack; RTAX_* of linux/rtnetlink.h).
 *
 * Role		a value.
 */
#ifndef NET_ROUTE_METRICS_H
#define NET_ROUTE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

struct route_metrics {
	uint32_t rto_min;  /* msec; 0: TCP's own */
	uint16_t initcwnd; /* segments; 0: TCP's own */
	uint8_t hoplimit;  /* 0: the host's */
	bool quickack;	   /* acknowledgements are not delayed */
};

#endif
