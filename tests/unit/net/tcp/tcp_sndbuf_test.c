/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/tcp_sndbuf.h"

#include <string.h>

#include "net/tcp/tcp.h"
#include "tests/vma_test.h"

static int allocated;
static bool exhausted;

static void *take(size_t size)
{
	if (exhausted)
		return NULL;
	allocated++;
	return malloc(size);
}

static void give(void *p)
{
	allocated--;
	free(p);
}

static const struct tcp_ops ops = {.alloc = take, .free = give};

static void append(struct tcp_sndbuf *sb, uint32_t from, uint32_t len)
{
	uint8_t *bytes = malloc(len + 1);
	struct iovec iov[3] = {{bytes, len / 3}, {bytes, 0}, {bytes + len / 3, len - len / 3}};

	for (uint32_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)((from + i) * 7 >> 2);
	assert_true(tcp_sndbuf_append(sb, iov, 3, len));
	free(bytes);
}

static void check(const struct tcp_sndbuf *sb, uint32_t from, uint32_t offset, uint32_t len)
{
	struct tcp_segment seg;
	uint32_t at = from + offset;

	tcp_sndbuf_parts(sb, offset, len, &seg);
	assert_int_equal(seg.len, len);
	assert_int_equal(seg.part[0].len + seg.part[1].len, len);
	for (int p = 0; p < 2; p++) {
		for (uint32_t i = 0; i < seg.part[p].len; i++, at++)
			assert_int_equal(seg.part[p].data[i], (uint8_t)(at * 7 >> 2));
	}
}

static void test_it_costs_nothing_until_used(void **state)
{
	struct tcp_sndbuf sb = {0};

	check(&sb, 0, 0, 0);
	tcp_sndbuf_fini(&sb, &ops);
	assert_int_equal(allocated, 0);
}

static void test_it_doubles_as_far_as_the_limit(void **state)
{
	struct tcp_sndbuf sb = {0};

	assert_int_equal(tcp_sndbuf_reserve(&sb, &ops, 10, 100000), 10);
	assert_int_equal(sb.size, TCP_SNDBUF_FIRST);
	assert_int_equal(tcp_sndbuf_reserve(&sb, &ops, 5000, 100000), 5000);
	assert_int_equal(sb.size, 8192);
	assert_int_equal(tcp_sndbuf_reserve(&sb, &ops, 200000, 100000), 100000);
	assert_int_equal(sb.size, 131072);
	append(&sb, 0, 100000);
	assert_int_equal(tcp_sndbuf_reserve(&sb, &ops, 1, 100000), 0);
	assert_int_equal(tcp_sndbuf_reserve(&sb, &ops, 1, 50), 0); /* the limit decreased */
	assert_int_equal(allocated, 1);
	tcp_sndbuf_fini(&sb, &ops);
	assert_int_equal(allocated, 0);
}

static void test_without_memory_it_offers_what_it_has(void **state)
{
	struct tcp_sndbuf sb = {0};

	exhausted = true;
	assert_int_equal(tcp_sndbuf_reserve(&sb, &ops, 10, 100000), 0);
	exhausted = false;
	tcp_sndbuf_reserve(&sb, &ops, 10, 100000);
	append(&sb, 0, 10);
	exhausted = true;
	assert_int_equal(tcp_sndbuf_reserve(&sb, &ops, 9000, 100000), 4086);
	exhausted = false;
	tcp_sndbuf_fini(&sb, &ops);
}

static void test_bytes_come_out_as_they_went_in(void **state)
{
	struct tcp_sndbuf sb = {0};
	uint32_t in = 0, out = 0, x = 1, n;

	for (int i = 0; i < 3000; i++) {
		x = x * 1664525u + 1013904223u;
		n = (x >> 8) % 3000;
		n = tcp_sndbuf_reserve(&sb, &ops, n, i < 1000 ? 6000 : 20000);
		append(&sb, in, n);
		in += n;
		n = sb.len ? (x >> 20) % sb.len : 0;
		check(&sb, out, n / 2, sb.len - n);
		tcp_sndbuf_consume(&sb, n);
		out += n;
		assert_int_equal(sb.len, in - out);
	}
	tcp_sndbuf_fini(&sb, &ops);
	assert_int_equal(allocated, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_it_costs_nothing_until_used),
	cmocka_unit_test(test_it_doubles_as_far_as_the_limit),
	cmocka_unit_test(test_without_memory_it_offers_what_it_has),
	cmocka_unit_test(test_bytes_come_out_as_they_went_in),
};

VMA_TEST_MAIN("tcp_sndbuf", tests, NULL, NULL)
