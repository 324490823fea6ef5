/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/siphash.h"

struct sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotl(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = rotl(s->v1, 13) ^ s->v0;
	s->v0 = rotl(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotl(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotl(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotl(s->v1, 17) ^ s->v2;
	s->v2 = rotl(s->v2, 32);
}

static inline uint64_t load_le64(const uint8_t *p)
{
	uint64_t v;

	__builtin_memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	return v;
}

uint64_t siphash(const uint8_t key[SIPHASH_KEY], const void *data, size_t len)
{
	const uint8_t *bytes = data;
	uint64_t k0 = load_le64(key), k1 = load_le64(key + 8), last = (uint64_t)len << 56, word;
	struct sip s = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du,
			k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
	size_t at;

	for (at = 0; len - at >= 8; at += 8) {
		word = load_le64(bytes + at);
		s.v3 ^= word;
		sip_round(&s);
		sip_round(&s);
		s.v0 ^= word;
	}
	for (size_t i = 0; at + i < len; i++)
		last |= (uint64_t)bytes[at + i] << (8 * i);
	s.v3 ^= last;
	sip_round(&s);
	sip_round(&s);
	s.v0 ^= last;
	s.v2 ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
