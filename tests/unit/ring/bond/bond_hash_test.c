/* SPDX-License-Identifier: BSD-2-Clause */
/* The expected numbers are computed by hand from the formulas of bonding.rst. */
#include "ring/bond/bond_hash.h"

#include <linux/if_bonding.h>
#include <string.h>

#include "vma_test.h"

/* IPv4: 10.0.0.1 -> 10.0.0.2, ports 0x1234 -> 0x0050. */
static const uint8_t v4[64] = {
	2, 0, 0, 0,  0,	 0x22, 2, 0,  0, 0, 0, 0x11, 0x08, 0x00, 0x45, 0,    0,	   28,	 0,
	0, 0, 0, 64, 17, 0,    0, 10, 0, 0, 1, 10,   0,	   0,	 2,    0x12, 0x34, 0x00, 0x50,
};

static void tag(uint8_t *to, const uint8_t *frame, uint16_t vlan)
{
	memcpy(to, frame, 12);
	to[12] = 0x81;
	to[13] = 0x00;
	to[14] = (uint8_t)(vlan >> 8);
	to[15] = (uint8_t)vlan;
	memcpy(to + 16, frame + 12, 44);
}

static uint32_t fold(uint32_t hash)
{
	hash ^= hash >> 16;
	return hash ^ hash >> 8;
}

static void test_layer_2_is_of_the_link_addresses(void **state)
{
	assert_int_equal(bond_hash(v4, BOND_XMIT_POLICY_LAYER2), 0x22 ^ 0x11 ^ 0x0800);
}

static void test_layers_2_and_3(void **state)
{
	/* Little-endian words: 0x0100000a ^ 0x0200000a = 0x03000000. */
	uint32_t hash = fold(0x22 ^ 0x11 ^ 0x0800 ^ 0x03000000);

	assert_int_equal(bond_hash(v4, BOND_XMIT_POLICY_LAYER23), hash);
	assert_int_equal(bond_hash(v4, BOND_XMIT_POLICY_ENCAP23), hash);
}

static void test_layers_3_and_4(void **state)
{
	uint32_t hash = fold(0x50003412 ^ 0x03000000) >> 1;

	assert_int_equal(bond_hash(v4, BOND_XMIT_POLICY_LAYER34), hash);
	assert_int_equal(bond_hash(v4, BOND_XMIT_POLICY_ENCAP34), hash);
}

static void test_fragments_have_no_ports(void **state)
{
	uint8_t frame[64];
	uint32_t hash = fold(0x03000000) >> 1;

	memcpy(frame, v4, sizeof(frame));
	frame[20] = 0x20; /* more fragments */
	assert_int_equal(bond_hash(frame, BOND_XMIT_POLICY_LAYER34), hash);
	frame[20] = 0;
	frame[21] = 3; /* an offset */
	assert_int_equal(bond_hash(frame, BOND_XMIT_POLICY_LAYER34), hash);
	frame[20] = 0x40; /* do not fragment */
	frame[21] = 0;
	assert_int_equal(bond_hash(frame, BOND_XMIT_POLICY_LAYER34),
			 bond_hash(v4, BOND_XMIT_POLICY_LAYER34));
}

static void test_a_tag_is_passed_over(void **state)
{
	uint8_t tagged[64];

	tag(tagged, v4, 0x123);
	for (unsigned policy = 0; policy < BOND_XMIT_POLICY_VLAN_SRCMAC; policy++)
		assert_int_equal(bond_hash(tagged, policy), bond_hash(v4, policy));
	/* Vendor 0x020000, device 0x000011. */
	assert_int_equal(bond_hash(tagged, BOND_XMIT_POLICY_VLAN_SRCMAC), 0x123 ^ 0x020000 ^ 0x11);
	assert_int_equal(bond_hash(v4, BOND_XMIT_POLICY_VLAN_SRCMAC), 0x020000 ^ 0x11);
}

static void test_all_words_of_ipv6_count(void **state)
{
	uint8_t frame[64] = {2, 0, 0, 0, 0, 0x22, 2, 0, 0, 0, 0, 0x11, 0x86, 0xdd};
	uint32_t first;

	memcpy(frame + 54, v4 + 34, 4);
	first = bond_hash(frame, BOND_XMIT_POLICY_LAYER34);
	assert_int_equal(first, fold(0x50003412) >> 1);
	for (unsigned at = 22; at < 54; at++) {
		frame[at] = 0xff;
		assert_int_not_equal(bond_hash(frame, BOND_XMIT_POLICY_LAYER34), first);
		frame[at] = 0;
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_layer_2_is_of_the_link_addresses),
	cmocka_unit_test(test_layers_2_and_3),
	cmocka_unit_test(test_layers_3_and_4),
	cmocka_unit_test(test_fragments_have_no_ports),
	cmocka_unit_test(test_a_tag_is_passed_over),
	cmocka_unit_test(test_all_words_of_ipv6_count),
};

VMA_TEST_MAIN("bond_hash", tests, NULL, NULL)
