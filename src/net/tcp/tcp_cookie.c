/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/tcp_cookie.h"

#include "base/siphash.h"
#include "net/tcp/tcp_internal.h"

#define DATA_BITS 24
#define DATA_MASK ((1u << DATA_BITS) - 1)
#define PERIODS 2 /* valid in the period of its creation and in the next one */

#define TS_BITS 6
#define TS_WSCALE 0xfu /* all bits set: none offered */
#define TS_SACK 0x10u
#define TS_ECN 0x20u

/* Common MSS values, in ascending order. */
static const uint16_t mss_values[] = {TCP_MSS_MIN, 536, 1220, 1360, 1400, 1440, 1460, 8960};
#define MSS_VALUES (sizeof(mss_values) / sizeof(mss_values[0]))

static uint32_t cookie_hash(const uint8_t secret[16], const struct endpoint *local,
			    const struct endpoint *remote, uint64_t what)
{
	uint8_t data[TCP_PAIR + sizeof(what)];

	tcp_pack_pair(data, local, remote);
	__builtin_memcpy(data + TCP_PAIR, &what, sizeof(what));
	return (uint32_t)siphash(secret, data, sizeof(data));
}

static uint32_t period_of(nsec_t now)
{
	return (uint32_t)(now / TCP_COOKIE_LIFE);
}

/* Increases with the peer's sequence number and with time, as sequence numbers of a pair must. */
static uint32_t base_of(const uint8_t secret[16], const struct endpoint *local,
			const struct endpoint *remote, uint32_t irs)
{
	return cookie_hash(secret, local, remote, UINT64_MAX) + irs;
}

uint32_t tcp_cookie_make(const uint8_t secret[16], const struct endpoint *local,
			 const struct endpoint *remote, uint32_t irs, uint16_t mss, nsec_t now)
{
	uint32_t period = period_of(now), size = MSS_VALUES - 1;

	if (!mss)
		mss = addr_is_v4(&remote->addr) ? TCP_MSS_DEFAULT_V4 : TCP_MSS_DEFAULT_V6;
	while (size && mss_values[size] > mss)
		size--;
	return base_of(secret, local, remote, irs) + (period << DATA_BITS) +
	       ((cookie_hash(secret, local, remote, (uint64_t)period << 32 | irs) + size) &
		DATA_MASK);
}

/* The age of iss in periods. */
static uint32_t age_of(uint32_t iss, uint32_t base, uint32_t period)
{
	return (period - ((iss - base) >> DATA_BITS)) & (UINT32_MAX >> DATA_BITS);
}

uint16_t tcp_cookie_check(const uint8_t secret[16], const struct endpoint *local,
			  const struct endpoint *remote, uint32_t irs, uint32_t iss, nsec_t now)
{
	uint32_t base = base_of(secret, local, remote, irs), period = period_of(now);
	uint32_t age = age_of(iss, base, period), size;

	if (age >= PERIODS)
		return 0;
	period -= age;
	size = (iss - base - cookie_hash(secret, local, remote, (uint64_t)period << 32 | irs)) &
	       DATA_MASK;
	return size < MSS_VALUES ? mss_values[size] : 0;
}

bool tcp_cookie_maybe(const uint8_t secret[16], const struct endpoint *local,
		      const struct endpoint *remote, uint32_t seq, uint32_t iss, nsec_t now)
{
	/* seq is at most a window ahead of the SYN, much less than a period. */
	return age_of(iss, base_of(secret, local, remote, seq - 1), period_of(now)) <= PERIODS;
}

uint32_t tcp_cookie_timestamp(uint32_t clock, const struct tcp_options *opt, bool ecn)
{
	uint32_t bits = opt->wscale < 0 ? TS_WSCALE : (uint32_t)opt->wscale;
	uint32_t ts;

	if (opt->sack_permitted)
		bits |= TS_SACK;
	if (ecn)
		bits |= TS_ECN;
	ts = clock >> TS_BITS << TS_BITS | bits;
	return ts > clock ? ts - (1u << TS_BITS) : ts;
}

bool tcp_cookie_read_timestamp(uint32_t clock, struct tcp_options *opt)
{
	uint32_t wscale = clock & TS_WSCALE;

	opt->wscale = wscale > TCP_WSCALE_MAX ? (int8_t)-1 : (int8_t)wscale;
	opt->sack_permitted = clock & TS_SACK;
	return clock & TS_ECN;
}
