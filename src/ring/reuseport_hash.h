/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The place of a sender in a shared flow's table.  The XDP program, ports and tests compute it
 * alike.  Packets of one flow have the same destination, so the hash is of the sender only.
 *
 * Role		pure.  The XDP program includes it, hence the types of the kernel.
 */
#ifndef RING_REUSEPORT_HASH_H
#define RING_REUSEPORT_HASH_H

#include <linux/types.h>

#define REUSEPORT_MEMBERS 64  /* most members of one flow */
#define REUSEPORT_BUCKETS 256 /* places of its table */

/* remote, port: of the sender, in network byte order; seed: random, so no peer can predict it. */
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
