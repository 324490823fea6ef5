/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which place of a shared flow's table a sender has: the same answer from the XDP
 * program, from ports and from tests.  The flow is one address and port, so the
 * sender's are all that differs.
 *
 * Role		pure; also part of the XDP program, hence the kernel's types.
 */
#ifndef RING_REUSEPORT_HASH_H
#define RING_REUSEPORT_HASH_H

#include <linux/types.h>

#define REUSEPORT_MEMBERS 64  /* receivers of one flow */
#define REUSEPORT_BUCKETS 256 /* places of its table */

/* port: as it is in the frame; seed: no peer foresees it. */
static inline __attribute__((always_inline)) __u32 reuseport_bucket(__u32 remote, __u16 port,
								    __u32 seed)
{
	__u32 h = remote ^ seed;

	h = (h ^ h >> 16) * 0x7feb352du;
	h ^= port * 0x9e3779b1u;
	h = (h ^ h >> 15) * 0x846ca68bu;
	return (h ^ h >> 16) % REUSEPORT_BUCKETS;
}

#endif
