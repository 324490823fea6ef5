/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/param/param_env.h"

#include "tests/vma_test.h"

static bool is(const char *variable, const char *text)
{
	char other[] = "VMA_TRACELEVELS=0", entry[64];
	char *env[] = {other, entry, NULL};

	snprintf(entry, sizeof(entry), "%s", text);
	return param_switch_in(variable, env);
}

static void test_a_switch_is_what_the_environment_says(void **state)
{
	(void)state;
	assert_true(is("VMA_LOCAL", "VMA_LOCAL=1"));
	assert_true(is("VMA_LOCAL", "VMA_LOCAL=on"));
	assert_false(is("VMA_LOCAL", "VMA_LOCAL=0"));
	assert_false(is("VMA_OFFLOADED_SOCKETS", "VMA_OFFLOADED_SOCKETS=off"));
}

static void test_else_it_is_the_default(void **state)
{
	bool offloads = param_switch_in("VMA_OFFLOADED_SOCKETS", NULL);

	(void)state;
	assert_true(offloads);
	assert_true(is("VMA_OFFLOADED_SOCKETS", "VMA_OFFLOADED_SOCKETS=2"));
	assert_true(is("VMA_OFFLOADED_SOCKETS", "VMA_OFFLOADED_SOCKETS="));
	assert_true(is("VMA_OFFLOADED_SOCKETS", "VMA_OFFLOADED_SOCKETS"));
	assert_true(is("VMA_OFFLOADED_SOCKETS", "VMA_OFFLOADED_SOCKETS2=0"));
	assert_true(is("VMA_OFFLOADED_SOCKETS", "XVMA_OFFLOADED_SOCKETS=0"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_switch_is_what_the_environment_says),
	cmocka_unit_test(test_else_it_is_the_default),
};

VMA_TEST_MAIN("param_env", tests, NULL, NULL)
