/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the congestion control algorithms. */
#ifndef NET_TCP_RECOVERY_TCP_CC_INTERNAL_H
#define NET_TCP_RECOVERY_TCP_CC_INTERNAL_H

#include "net/tcp/recovery/tcp_cc.h"
#include "net/tcp/tcp_internal.h"

#define TCP_CC_CSS_DIVISOR 4 /* RFC 9406 section 4.3: CSS_GROWTH_DIVISOR */

static inline void tcp_cc_grow(struct tcp_cc *cc, uint32_t bytes)
{
	cc->cwnd = min_u32(cc->cwnd + min_u32(bytes, TCP_CC_MAX_WINDOW), TCP_CC_MAX_WINDOW);
}

/* Sets ssthresh, which ends slow start. */
void tcp_cc_leave_slow_start(struct tcp_cc *cc, uint32_t ssthresh);

#endif
