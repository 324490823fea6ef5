/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes of each block, as the standard says (draft-ietf-opsawg-pcapng section 4). */
#include "tools/vma/capture/pcapng.h"

#include <string.h>

#include "tests/vma_test.h"

static char *bytes;
static size_t n_bytes;
static FILE *out;

static int set_up(void **state)
{
	out = open_memstream(&bytes, &n_bytes);
	return out ? 0 : -1;
}

static int tear_down(void **state)
{
	fclose(out);
	free(bytes);
	return 0;
}

static uint32_t word(size_t at)
{
	uint32_t w;

	assert_true(at + sizeof(w) <= n_bytes);
	memcpy(&w, bytes + at, sizeof(w));
	return w;
}

static uint64_t two_words(size_t at)
{
	return (uint64_t)word(at) << 32 | word(at + 4);
}

/* One block: its type, and its length at both ends. */
static void is_block(uint32_t type, size_t len)
{
	fflush(out);
	assert_int_equal(n_bytes, len);
	assert_int_equal(word(0), type);
	assert_int_equal(word(4), len);
	assert_int_equal(word(len - 4), len);
}

/* An option at a place: its code and length in one word. */
static uint32_t option(uint16_t code, uint16_t len)
{
	return (uint32_t)len << 16 | code;
}

static void test_a_section(void **state)
{
	pcapng_begin(out, "abcde");
	is_block(0x0a0d0d0a, 28 + 4 + 8 + 4);
	assert_int_equal(word(8), 0x1a2b3c4d);
	assert_int_equal(word(12), 1); /* version 1.0 */
	assert_true(two_words(16) == UINT64_MAX);
	assert_int_equal(word(24), option(4, 5));
	assert_memory_equal(bytes + 28, "abcde\0\0", 8);
	assert_int_equal(word(36), 0); /* the end of the options */
}

static void test_an_interface(void **state)
{
	pcapng_interface(out, "v0", "ring", 96, "");
	is_block(1, 20 + 8 + 8 + 8 + 4);
	assert_int_equal(word(8), 1); /* Ethernet */
	assert_int_equal(word(12), 96);
	assert_int_equal(word(16), option(2, 2));
	assert_memory_equal(bytes + 20, "v0\0", 4);
	assert_int_equal(word(24), option(3, 4));
	assert_memory_equal(bytes + 28, "ring", 4);
	assert_int_equal(word(32), option(9, 1)); /* nanoseconds */
	assert_int_equal(word(36), 9);
	assert_int_equal(word(40), 0);
}

static void test_an_interface_with_a_filter(void **state)
{
	pcapng_interface(out, "v0", "ring", 96, "udp");
	is_block(1, 20 + 8 + 8 + 8 + 8 + 4);
	assert_int_equal(word(40), option(11, 4));
	assert_memory_equal(bytes + 44, "\0udp", 4);
}

static void test_a_packet(void **state)
{
	static const uint8_t data[] = {1, 2, 3, 4, 5};

	pcapng_packet(out, &(struct pcapng_packet){.interface = 3,
						   .sent = true,
						   .when = 0x1122334455667788ull,
						   .data = data,
						   .kept = 5,
						   .len = 77,
						   .comment = "why"});
	is_block(6, 32 + 8 + 8 + 8 + 4);
	assert_int_equal(word(8), 3);
	assert_true(two_words(12) == 0x1122334455667788ull);
	assert_int_equal(word(20), 5);
	assert_int_equal(word(24), 77);
	assert_memory_equal(bytes + 28, "\1\2\3\4\5\0\0", 8);
	assert_int_equal(word(36), option(1, 3));
	assert_memory_equal(bytes + 40, "why", 4);
	assert_int_equal(word(44), option(2, 4));
	assert_int_equal(word(48), 2); /* outbound */
	assert_int_equal(word(52), 0);
}

static void test_a_received_packet_without_bytes_and_comment(void **state)
{
	pcapng_packet(out, &(struct pcapng_packet){.data = (const uint8_t *)"", .comment = ""});
	is_block(6, 32 + 8 + 4);
	assert_int_equal(word(28), option(2, 4));
	assert_int_equal(word(32), 1); /* inbound */
}

static void test_statistics(void **state)
{
	pcapng_statistics(out, &(struct pcapng_counts){.interface = 2,
						       .from = 1,
						       .to = 1ull << 32,
						       .received = 10,
						       .dropped = 4,
						       .accepted = 5,
						       .delivered = 6});
	is_block(5, 24 + 6 * 12 + 4);
	assert_int_equal(word(8), 2);
	assert_true(two_words(12) == 1ull << 32);
	assert_int_equal(word(20), option(2, 8));
	assert_true(two_words(24) == 1);
	assert_int_equal(word(32), option(3, 8));
	assert_true(two_words(36) == 1ull << 32);
	assert_int_equal(word(44), option(4, 8));
	assert_int_equal(word(48), 10);
	assert_int_equal(word(56), option(5, 8));
	assert_int_equal(word(60), 4);
	assert_int_equal(word(68), option(6, 8));
	assert_int_equal(word(72), 5);
	assert_int_equal(word(80), option(8, 8));
	assert_int_equal(word(84), 6);
}

/* However long the texts are, the block is a block. */
static void test_long_texts_are_cut(void **state)
{
	char text[5000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	pcapng_interface(out, text, text, 96, text);
	fflush(out);
	assert_true(n_bytes < 2200);
	is_block(1, n_bytes);
	assert_int_equal(word(16), option(2, PCAPNG_COMMENT));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	TEST(test_a_section),
	TEST(test_an_interface),
	TEST(test_an_interface_with_a_filter),
	TEST(test_a_packet),
	TEST(test_a_received_packet_without_bytes_and_comment),
	TEST(test_statistics),
	TEST(test_long_texts_are_cut),
};

VMA_TEST_MAIN("pcapng", tests, NULL, NULL)
