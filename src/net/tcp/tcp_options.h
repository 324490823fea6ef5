/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP options: RFC 9293 section 3.1 (end, no-op, MSS), RFC 7323 (window scale, timestamps),
 * RFC 2018 (SACK permitted, SACK).
 *
 * Role		pure functions of bytes; received options are untrusted.
 */
#ifndef NET_TCP_TCP_OPTIONS_H
#define NET_TCP_TCP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TCP_MSS_DEFAULT_V4 536u /* RFC 9293 section 3.7.1 */
#define TCP_MSS_DEFAULT_V6 1220u
#define TCP_WSCALE_MAX 14     /* RFC 7323 section 2.3 */
#define TCP_SACK_BLOCKS 4     /* as many as fit in 40 bytes of options */
#define TCP_OPT_TIMESTAMPS 12 /* with padding */

struct tcp_range {
	uint32_t start;
	uint32_t end; /* the first byte after it */
};

struct tcp_options {
	bool has_ts;
	bool sack_permitted;
	int8_t wscale; /* -1: absent */
	uint8_t sacks;
	uint16_t mss; /* 0: absent */
	uint32_t tsval;
	uint32_t tsecr;
	struct tcp_range sack[TCP_SACK_BLOCKS];
};

/* Skips unknown options. False if an option is too long or too short. */
bool tcp_options_parse(struct tcp_options *opt, const uint8_t *p, size_t len);

/*
 * Writers append at p and return the bytes written, a multiple of four. For a SYN: writes mss, and
 * those of wscale, sack_permitted and timestamps that are set.
 */
size_t tcp_options_write_syn(uint8_t *p, const struct tcp_options *opt);
/* Writes as many of n blocks as fit in room bytes; returns 0 if none does. */
size_t tcp_options_write_sack(uint8_t *p, size_t room, const struct tcp_range *block, unsigned n);

static inline uint32_t load_be32(const uint8_t *p)
{
	uint32_t v;

	__builtin_memcpy(&v, p, sizeof(v));
	return __builtin_bswap32(v);
}

static inline uint16_t load_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline void store_be32(uint8_t *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	__builtin_memcpy(p, &v, sizeof(v));
}

static inline size_t tcp_options_write_timestamps(uint8_t *p, uint32_t tsval, uint32_t tsecr)
{
	store_be32(p, 0x0101080au);
	store_be32(p + 4, tsval);
	store_be32(p + 8, tsecr);
	return TCP_OPT_TIMESTAMPS;
}

/*
 * True for the options of nearly every data segment: no-op, no-op, timestamps and nothing else (RFC
 * 7323 appendix A).
 */
static inline bool tcp_options_only_timestamps(const uint8_t *p, size_t len)
{
	return len == TCP_OPT_TIMESTAMPS && load_be32(p) == 0x0101080au;
}

#endif
