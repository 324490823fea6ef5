/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/siphash.h"

#include "tests/vma_test.h"

/* The vectors of the reference implementation of SipHash: key 00..0f, message 00..(n-1). */
static void test_it_gives_the_reference_vectors(void **state)
{
	static const struct {
		size_t len;
		uint64_t hash;
	} rows[] = {{0, 0x726fdb47dd0e0e31u},
		    {1, 0x74f839c593dc67fdu},
		    {8, 0x93f5f5799a932462u},
		    {15, 0xa129ca6149be45e5u}};
	uint8_t key[SIPHASH_KEY], data[16];

	for (unsigned i = 0; i < 16; i++)
		key[i] = data[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_true(siphash(key, data, rows[i].len) == rows[i].hash);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_it_gives_the_reference_vectors),
};

VMA_TEST_MAIN("siphash", tests, NULL, NULL)
