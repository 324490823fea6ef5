/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection of the kernel goes on with the numbers of ours. */
#include "sock/move/repair.h"

#include <linux/capability.h>
#include <linux/tcp.h>
#include <sys/syscall.h>

#include "base/sys.h"
#include "sock/move/kernel_pair.h"
#include "tests/lib/loop_net.h"
#include "tests/unit/sock/move/kernel_errors.h"
#include "tests/vma_test.h"

static int fds[2];

static int start(void **state)
{
	(void)state;
	loop_net_enter();
	return 0;
}

static int connected(void **state)
{
	static uint16_t port = 20200;
	struct sockaddr_in any = {.sin_family = AF_INET,
				  .sin_port = htons(port++),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sock_addr at = {.in = any, .len = sizeof(any)}, to = at;
	const int on = 1;

	(void)state;
	to.in.sin_port = htons(port++);
	assert_int_equal(kernel_pair(&at, &to, fds), 0);
	return setsockopt(fds[0], SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on));
}

static int closed(void **state)
{
	(void)state;
	sys_close(fds[0]);
	sys_close(fds[1]);
	return 0;
}

static int value_of(int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	assert_int_equal(getsockopt(fds[0], level, name, &value, &len), 0);
	return value;
}

static void assert_goes_on(void)
{
	char c;

	assert_int_equal(value_of(IPPROTO_TCP, TCP_REPAIR), 0);
	assert_int_equal(value_of(SOL_SOCKET, SO_REUSEADDR), 1);
	assert_int_equal(send(fds[1], "x", 1, MSG_NOSIGNAL), 1);
	assert_int_equal(recv(fds[0], &c, 1, 0), 1);
	assert_int_equal(recv(fds[0], &c, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static void sends_number(uint32_t number)
{
	char c;

	assert_int_equal(send(fds[0], "x", 1, MSG_ZEROCOPY), 1);
	assert_int_equal(recv(fds[1], &c, 1, 0), 1);
	kernel_errors_have(fds[0], number, number);
}

static void test_numbers_go_on(void **state)
{
	(void)state;
	repair_completions(fds[0], (struct error_queue){.first = 7, .next = 7});
	kernel_errors_are_read(fds[0]);
	assert_goes_on();
	sends_number(7);
}

static void test_what_is_told_and_not_read_waits(void **state)
{
	(void)state;
	repair_completions(fds[0], (struct error_queue){.first = 3, .next = 10});
	kernel_errors_have(fds[0], 3, 9);
	kernel_errors_are_read(fds[0]);
	assert_goes_on();
	sends_number(10);
}

static void test_nothing_told_changes_nothing(void **state)
{
	(void)state;
	repair_completions(fds[0], (struct error_queue){0});
	kernel_errors_are_read(fds[0]);
	assert_goes_on();
	sends_number(0);
}

/* SO_ZEROCOPY may have been switched off since. */
static void test_the_option_stays_as_it_is(void **state)
{
	const int off = 0, on = 1;

	(void)state;
	assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_ZEROCOPY, &off, sizeof(off)), 0);
	repair_completions(fds[0], (struct error_queue){.first = 2, .next = 2});
	assert_int_equal(value_of(SOL_SOCKET, SO_ZEROCOPY), 0);
	assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)), 0);
	sends_number(2);
}

static void assert_tells_nothing(void)
{
	char c;

	assert_int_equal(value_of(SOL_SOCKET, SO_ZEROCOPY), 0);
	assert_goes_on();
	assert_int_equal(send(fds[0], "x", 1, MSG_ZEROCOPY), 1);
	assert_int_equal(recv(fds[1], &c, 1, 0), 1);
	kernel_errors_are_read(fds[0]);
}

/* Wrong numbers would be worse than none. */
static void test_too_many_switch_the_option_off(void **state)
{
	static const struct error_queue many[] = {
		{.first = REPAIR_COMPLETIONS_MAX + 1, .next = REPAIR_COMPLETIONS_MAX + 1},
		{.first = UINT32_MAX, .next = 1},
	};
	const int on = 1;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)), 0);
		repair_completions(fds[0], many[i]);
		assert_tells_nothing();
	}
}

static void test_without_the_privilege_the_option_is_off(void **state)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3],
		none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	(void)state;
	assert_int_equal(syscall(SYS_capget, &header, has), 0);
	none[0].permitted = has[0].permitted;
	none[1].permitted = has[1].permitted;
	assert_int_equal(syscall(SYS_capset, &header, none), 0);
	repair_completions(fds[0], (struct error_queue){.first = 1, .next = 1});
	assert_int_equal(syscall(SYS_capset, &header, has), 0);
	assert_tells_nothing();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, connected, closed)

static const struct CMUnitTest tests[] = {
	CASE(test_numbers_go_on),
	CASE(test_what_is_told_and_not_read_waits),
	CASE(test_nothing_told_changes_nothing),
	CASE(test_the_option_stays_as_it_is),
	CASE(test_too_many_switch_the_option_off),
	CASE(test_without_the_privilege_the_option_is_off),
};

VMA_TEST_MAIN("sock/move/repair", tests, start, NULL)
