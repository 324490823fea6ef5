/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/frame.h"

#include "tests/vma_test.h"

static struct flow_key key_of(uint32_t local, uint16_t lport, uint32_t remote, uint16_t rport)
{
	struct flow_key key = {
		.local = addr_v4(htonl(local)),
		.remote = addr_v4(htonl(remote)),
		.local_port = htons(lport),
		.remote_port = htons(rport),
		.proto = IPPROTO_TCP,
	};

	return key;
}

static void test_every_byte_counts(void **state)
{
	struct flow_key key = key_of(0x0a000001, 80, 0x0a000002, 40000), other;
	uint32_t hash = flow_key_hash(&key);

	for (size_t i = 0; i < sizeof(key); i++) {
		for (int bit = 0; bit < 8; bit++) {
			other = key;
			((uint8_t *)&other)[i] ^= (uint8_t)(1 << bit);
			assert_false(flow_key_eq(&key, &other));
			assert_int_not_equal(flow_key_hash(&other), hash);
		}
	}
	other = key;
	assert_true(flow_key_eq(&key, &other));
	assert_int_equal(flow_key_hash(&other), hash);
}

/* Keys as servers and clients have them; the low bits of the hash choose a bucket. */
static void test_neighbouring_keys_spread_evenly(void **state)
{
	enum { BUCKETS = 4096, KEYS = 65536 };
	static unsigned ports[BUCKETS], peers[BUCKETS], locals[BUCKETS];
	unsigned max = 0;

	for (uint32_t i = 0; i < KEYS; i++) {
		struct flow_key a = key_of(0x0a000001, 80, 0x0a000002, (uint16_t)i);
		struct flow_key b = key_of(0x0a000001, 80, 0x0a000000 + i, 40000);
		struct flow_key c = key_of(0x0a000000 + (i >> 8), (uint16_t)(i & 0xff), 0, 0);

		ports[flow_key_hash(&a) % BUCKETS]++;
		peers[flow_key_hash(&b) % BUCKETS]++;
		locals[flow_key_hash(&c) % BUCKETS]++;
	}
	for (int i = 0; i < BUCKETS; i++) {
		max = ports[i] > max ? ports[i] : max;
		max = peers[i] > max ? peers[i] : max;
		max = locals[i] > max ? locals[i] : max;
	}
	/* Sixteen per bucket on average; a random choice exceeds 40 once in 10^4 runs. */
	print_message("fullest bucket: %u\n", max);
	assert_in_range(max, 16, 40);
}

static void test_both_directions_differ(void **state)
{
	struct flow_key a = key_of(0x0a000001, 80, 0x0a000002, 81);
	struct flow_key b = key_of(0x0a000002, 81, 0x0a000001, 80);

	assert_int_not_equal(flow_key_hash(&a), flow_key_hash(&b));
}

static void test_the_seed_changes_the_hash(void **state)
{
	struct flow_key key = key_of(0x0a000001, 80, 0x0a000002, 81);
	static const uint64_t seed[5] = {1, 2, 3, 4, 5};
	uint32_t before = flow_key_hash(&key);

	flow_key_seed(seed);
	assert_int_not_equal(flow_key_hash(&key), before);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_every_byte_counts),
	cmocka_unit_test(test_neighbouring_keys_spread_evenly),
	cmocka_unit_test(test_both_directions_differ),
	cmocka_unit_test(test_the_seed_changes_the_hash),
};

VMA_TEST_MAIN("flow_key", tests, NULL, NULL)
