/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/tcp_options.h"

enum {
	KIND_END = 0,
	KIND_NOP = 1,
	KIND_MSS = 2,
	KIND_WSCALE = 3,
	KIND_SACK_PERMITTED = 4,
	KIND_SACK = 5,
	KIND_TIMESTAMPS = 8,
};

/* Parses one option whose length lies within the header. */
static bool parse_one(struct tcp_options *opt, const uint8_t *p, size_t len)
{
	switch (p[0]) {
	case KIND_MSS:
		if (len != 4)
			return false;
		opt->mss = load_be16(p + 2);
		break;
	case KIND_WSCALE:
		if (len != 3)
			return false;
		/* RFC 7323 section 2.3: a larger shift counts as 14. */
		opt->wscale = (int8_t)(p[2] > TCP_WSCALE_MAX ? TCP_WSCALE_MAX : p[2]);
		break;
	case KIND_SACK_PERMITTED:
		if (len != 2)
			return false;
		opt->sack_permitted = true;
		break;
	case KIND_SACK:
		if (len < 10 || (len - 2) % 8 != 0)
			return false;
		for (size_t at = 2; at < len && opt->sacks < TCP_SACK_BLOCKS; at += 8) {
			opt->sack[opt->sacks].start = load_be32(p + at);
			opt->sack[opt->sacks].end = load_be32(p + at + 4);
			opt->sacks++;
		}
		break;
	case KIND_TIMESTAMPS:
		if (len != 10)
			return false;
		opt->has_ts = true;
		opt->tsval = load_be32(p + 2);
		opt->tsecr = load_be32(p + 6);
		break;
	default:
		break;
	}
	return true;
}

bool tcp_options_parse(struct tcp_options *opt, const uint8_t *p, size_t len)
{
	size_t at = 0;

	opt->has_ts = false;
	opt->sack_permitted = false;
	opt->wscale = -1;
	opt->sacks = 0;
	opt->mss = 0;
	while (at < len) {
		if (p[at] == KIND_END)
			break;
		if (p[at] == KIND_NOP) {
			at++;
			continue;
		}
		if (len - at < 2 || p[at + 1] < 2 || p[at + 1] > len - at)
			return false;
		if (!parse_one(opt, p + at, p[at + 1]))
			return false;
		at += p[at + 1];
	}
	return true;
}

size_t tcp_options_write_syn(uint8_t *p, const struct tcp_options *opt)
{
	size_t at = 0;

	p[at++] = KIND_MSS;
	p[at++] = 4;
	p[at++] = (uint8_t)(opt->mss >> 8);
	p[at++] = (uint8_t)opt->mss;
	if (opt->wscale >= 0) {
		p[at++] = KIND_NOP;
		p[at++] = KIND_WSCALE;
		p[at++] = 3;
		p[at++] = (uint8_t)opt->wscale;
	}
	if (opt->sack_permitted) {
		p[at++] = KIND_NOP;
		p[at++] = KIND_NOP;
		p[at++] = KIND_SACK_PERMITTED;
		p[at++] = 2;
	}
	if (opt->has_ts)
		at += tcp_options_write_timestamps(p + at, opt->tsval, opt->tsecr);
	return at;
}

size_t tcp_options_write_sack(uint8_t *p, size_t room, const struct tcp_range *block, unsigned n)
{
	if (room < 12)
		return 0;
	if (n > (room - 4) / 8)
		n = (unsigned)((room - 4) / 8);
	if (n == 0)
		return 0;
	p[0] = KIND_NOP;
	p[1] = KIND_NOP;
	p[2] = KIND_SACK;
	p[3] = (uint8_t)(2 + 8 * n);
	for (unsigned i = 0; i < n; i++) {
		store_be32(p + 4 + 8 * i, block[i].start);
		store_be32(p + 8 + 8 * i, block[i].end);
	}
	return 4 + 8 * (size_t)n;
}
