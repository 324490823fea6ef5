/* SPDX-License-Identifier: BSD-2-Clause */
/* add_conf_rule() without memory: ENOMEM, wherever it ends, and nothing has changed. */
#include "base/mem.h"
#include "sock/core/extra/sock_extra.h"
#include "tests/unit/sock/world.h"

static __thread int left = -1; /* so many allocations of this thread succeed; -1: all */

static bool is_left(void)
{
	if (left > 0)
		left--;
	else if (!left)
		return false;
	return true;
}

/* The linker replaces the functions of base/mem.h. */
void *__real_mem_alloc(size_t size);
void *__wrap_mem_alloc(size_t size);
void *__real_mem_realloc(void *mem, size_t size);
void *__wrap_mem_realloc(void *mem, size_t size);
char *__real_mem_strdup(const char *text);
char *__wrap_mem_strdup(const char *text);

void *__wrap_mem_alloc(size_t size)
{
	return is_left() ? __real_mem_alloc(size) : NULL;
}

void *__wrap_mem_realloc(void *mem, size_t size)
{
	return is_left() ? __real_mem_realloc(mem, size) : NULL;
}

char *__wrap_mem_strdup(const char *text)
{
	return is_left() ? __real_mem_strdup(text) : NULL;
}

/* Who serves a socket that receives at a port. */
static enum verdict verdict_at(unsigned port)
{
	struct tsock ts = world_udp(0, port);
	enum verdict verdict = sock_verdict(ts.ref.sk);

	tsock_close(&ts);
	return verdict;
}

static void test_no_memory(void **state)
{
	unsigned port = world_port(), failures = 0;
	char line[64];
	int rc;

	snprintf(line, sizeof(line), "use os udp_receiver *:%u", port);
	assert_int_equal(sock_add_rule("use vma udp_receiver *:9"),
			 0); /* there are rules already */
	for (int n = 0;; n++) {
		left = n;
		rc = sock_add_rule(line);
		left = -1;
		if (!rc)
			break;
		assert_int_equal(rc, -ENOMEM);
		assert_int_equal(verdict_at(port), VERDICT_ACCELERATED);
		failures++;
	}
	assert_true(failures >= 3); /* of the text, of the block, of the rules */
	assert_int_not_equal(verdict_at(port), VERDICT_ACCELERATED);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_memory)};

VMA_TEST_MAIN("rule_memory", tests, world_start, world_finish)
