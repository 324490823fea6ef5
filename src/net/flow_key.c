/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/frame.h"

/*
 * Multiplies to 128 bits and folds, as wyhash does. Each factor is a word of the key xored with a
 * word of the secret seed, so that an outsider can neither make a factor zero nor find two keys of
 * equal hash. Written at start, read by all. The initial words are digits of pi.
 */
static uint64_t seeds[5] = {
	0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0,
	0x082efa98ec4e6c89, 0x452821e638d01377,
};

void flow_key_seed(const uint64_t seed[5])
{
	memcpy(seeds, seed, sizeof(seeds));
}

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t ports_word(const struct flow_key *key)
{
	uint64_t w;

	memcpy(&w, &key->local_port, sizeof(w)); /* ports, protocol and pad */
	return w;
}

uint32_t flow_key_hash(const struct flow_key *key)
{
	uint64_t low = mix(key->local.q[1] ^ seeds[0], key->remote.q[1] ^ seeds[1]);
	uint64_t high = mix(key->local.q[0] ^ seeds[2], key->remote.q[0] ^ seeds[3]);
	uint64_t h = mix(low ^ high ^ ports_word(key), seeds[4] | 1);

	return (uint32_t)(h ^ h >> 32);
}
