/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/extra/profile.h"

#include <errno.h>

#include "vma_test.h"

static int add(unsigned type, uint32_t mask)
{
	struct vma_ring_type_attr attr = {.ring_type = (vma_ring_type)type, .ring_pktq = {mask}};

	return profile_add(&attr);
}

static void test_a_key_is_valid_when_it_was_added(void **state)
{
	int packet, external;

	for (uint32_t key = 0; key < 5; key++)
		assert_int_equal(profile_type(key), -EINVAL);
	external = add(VMA_RING_EXTERNAL_MEM, 0);
	assert_true(external > 0);
	assert_int_equal(profile_type((uint32_t)external), VMA_RING_EXTERNAL_MEM);
	for (uint32_t key = 0; key < 5; key++)
		assert_true((int)key == external || profile_type(key) == -EINVAL);
	packet = add(VMA_RING_PACKET, 0);
	assert_true(packet > 0 && packet != external);
	assert_int_equal(profile_type((uint32_t)packet), VMA_RING_PACKET);
	assert_int_equal(add(VMA_RING_PACKET, 0), packet);
	assert_int_equal(add(VMA_RING_EXTERNAL_MEM, 0), external);
}

static void test_others_are_refused(void **state)
{
	assert_int_equal(add(2, 0), -EINVAL);
	assert_int_equal(add(UINT32_MAX, 0), -EINVAL);
	assert_int_equal(add(VMA_RING_PACKET, 1), -EINVAL);
	assert_int_equal(add(VMA_RING_EXTERNAL_MEM, 1u << 31), -EINVAL);
	assert_int_equal(profile_type(UINT32_MAX), -EINVAL);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_key_is_valid_when_it_was_added),
	cmocka_unit_test(test_others_are_refused),
};

VMA_TEST_MAIN("profile", tests, NULL, NULL)
