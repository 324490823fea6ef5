/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The initial numbers of a connection.  Peers see both, so each is the sum of a clock and half of
 * a keyed hash of the pair: they reveal neither clock, nor the difference of the two.
 */
#include "base/siphash.h"
#include "net/tcp/tcp_internal.h"

#define ISS_TICK (4 * NSEC_PER_USEC) /* RFC 9293 section 3.4.1 */

void tcp_pack_pair(uint8_t bytes[TCP_PAIR], const struct endpoint *local,
		   const struct endpoint *remote)
{
	__builtin_memcpy(bytes, &local->addr, 16);
	__builtin_memcpy(bytes + 16, &remote->addr, 16);
	__builtin_memcpy(bytes + 32, &local->port, 2);
	__builtin_memcpy(bytes + 34, &remote->port, 2);
}

struct tcp_start tcp_start_of(const uint8_t secret[16], const struct endpoint *local,
			      const struct endpoint *remote, nsec_t now)
{
	uint8_t pair[TCP_PAIR];
	struct tcp_start start;
	uint64_t hash;

	tcp_pack_pair(pair, local, remote);
	hash = siphash(secret, pair, sizeof(pair));
	start.iss = (uint32_t)hash + (uint32_t)(now / ISS_TICK);
	start.ts_offset = (uint32_t)(hash >> 32);
	return start;
}
