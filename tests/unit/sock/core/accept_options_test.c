/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/accept_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "sock/core/control.h"
#include "tests/vma_test.h"

static int listener, child;

static int set_up(void **state)
{
	(void)state;
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	child = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(listener >= 0 && child >= 0);
	return control_lock() ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	control_unlock();
	close(listener);
	close(child);
	return 0;
}

static void set(int fd, int level, int name, int value)
{
	assert_int_equal(setsockopt(fd, level, name, &value, sizeof(value)), 0);
}

static int get(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
	return value;
}

static void inherit(void)
{
	const struct accept_options *options = accept_options_look(listener, AF_INET);

	assert_non_null(options);
	accept_options_apply(options, child);
	accept_options_put(options);
}

static void test_a_new_listener_has_none(void **state)
{
	(void)state;
	assert_null(accept_options_look(listener, AF_INET));
	accept_options_apply(NULL, child);
	assert_null(accept_options_get(NULL));
	accept_options_put(NULL);
}

static void test_a_child_gets_what_the_kernel_would_give_it(void **state)
{
	struct timeval timeout = {.tv_sec = 3, .tv_usec = 500000}, inherited;
	socklen_t len = sizeof(inherited);

	(void)state;
	set(listener, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(listener, IPPROTO_TCP, TCP_KEEPIDLE, 77);
	set(listener, IPPROTO_IP, IP_TTL, 33);
	assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)),
			 0);
	inherit();
	assert_int_equal(get(child, SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(get(child, IPPROTO_TCP, TCP_KEEPIDLE), 77);
	assert_int_equal(get(child, IPPROTO_IP, IP_TTL), 33);
	assert_int_equal(getsockopt(child, SOL_SOCKET, SO_RCVTIMEO, &inherited, &len), 0);
	assert_int_equal(inherited.tv_sec, 3);
	assert_int_equal(inherited.tv_usec, 500000);
}

/* The kernel doubles what a program sets, and reports the double. */
static void test_buffers_do_not_double(void **state)
{
	(void)state;
	set(listener, SOL_SOCKET, SO_RCVBUF, 30000);
	set(listener, SOL_SOCKET, SO_SNDBUF, 40000);
	inherit();
	assert_int_equal(get(child, SOL_SOCKET, SO_RCVBUF), 60000);
	assert_int_equal(get(child, SOL_SOCKET, SO_SNDBUF), 80000);
}

/* IP_TOS sets SO_PRIORITY as a side effect: the order of setting matters. */
static void test_a_priority_beside_a_tos_is_kept(void **state)
{
	(void)state;
	set(listener, IPPROTO_IP, IP_TOS, 0x10);
	set(listener, SOL_SOCKET, SO_PRIORITY, 3);
	inherit();
	assert_int_equal(get(child, IPPROTO_IP, IP_TOS), 0x10);
	assert_int_equal(get(child, SOL_SOCKET, SO_PRIORITY), 3);
}

static void test_a_deferred_accept_is_the_listeners_own(void **state)
{
	(void)state;
	set(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5);
	assert_null(accept_options_look(listener, AF_INET));
}

static void test_the_last_of_several_holders_frees_them(void **state)
{
	const struct accept_options *options;

	(void)state;
	set(listener, IPPROTO_TCP, TCP_NODELAY, 1);
	options = accept_options_look(listener, AF_INET);
	assert_non_null(options);
	assert_ptr_equal(accept_options_get(options), options);
	accept_options_put(options);
	accept_options_apply(options, child); /* freed too early: the address sanitizer reports */
	accept_options_put(options);
	assert_int_equal(get(child, IPPROTO_TCP, TCP_NODELAY), 1);
}

/* They are those of the moment when the listener was looked at. */
static void test_they_do_not_change_later(void **state)
{
	const struct accept_options *options;

	(void)state;
	set(listener, IPPROTO_TCP, TCP_NODELAY, 1);
	options = accept_options_look(listener, AF_INET);
	set(listener, IPPROTO_TCP, TCP_NODELAY, 0);
	accept_options_apply(options, child);
	accept_options_put(options);
	assert_int_equal(get(child, IPPROTO_TCP, TCP_NODELAY), 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	CASE(test_a_new_listener_has_none),
	CASE(test_a_child_gets_what_the_kernel_would_give_it),
	CASE(test_buffers_do_not_double),
	CASE(test_a_priority_beside_a_tos_is_kept),
	CASE(test_a_deferred_accept_is_the_listeners_own),
	CASE(test_the_last_of_several_holders_frees_them),
	CASE(test_they_do_not_change_later),
};

VMA_TEST_MAIN("accept_options", tests, NULL, NULL)
