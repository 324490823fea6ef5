/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sequence numbers and timestamps: 32 bits, compared modulo 2^32 (RFC 9293 section 3.4, RFC 7323
 * section 5.2).  Valid for distances below 2^31.
 */
#ifndef NET_TCP_TCP_SEQ_H
#define NET_TCP_TCP_SEQ_H

#include <stdbool.h>
#include <stdint.h>

static inline bool seq_lt(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static inline bool seq_leq(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) <= 0;
}

static inline bool seq_gt(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

static inline bool seq_geq(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) >= 0;
}

static inline uint32_t seq_max(uint32_t a, uint32_t b)
{
	return seq_gt(a, b) ? a : b;
}

static inline uint32_t seq_min(uint32_t a, uint32_t b)
{
	return seq_lt(a, b) ? a : b;
}

#endif
