/* SPDX-License-Identifier: BSD-2-Clause */
/* A port stays reserved while its keeper is open, and the keepers are counted. */
#include "sock/core/port/port_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "tests/vma_test.h"

#define THREADS 4
#define ROUNDS 2000

static struct sockaddr_in name;

/* The twin of a socket, with a port. */
static int bound(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(name);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
	return fd;
}

static bool port_is_free(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = bind(fd, (struct sockaddr *)&name, sizeof(name)), err = errno;

	close(fd);
	assert_true(!rc || err == EADDRINUSE);
	return !rc;
}

static void test_the_port_is_kept_after_the_twin_is_closed(void **state)
{
	int twin = bound(), keeper = port_keeper_open(twin);

	assert_true(keeper >= 0);
	assert_int_not_equal(keeper, twin);
	close(twin);
	assert_false(port_is_free());
	port_keeper_close(keeper);
	assert_true(port_is_free());
}

/* Neither the program nor one that it executes has it. */
static void test_the_program_does_not_see_it(void **state)
{
	int twin = bound(), keeper = port_keeper_open(twin);

	assert_true(sys_fd_is_hidden(keeper));
	assert_int_equal(fcntl(keeper, F_GETFD), FD_CLOEXEC);
	port_keeper_close(keeper);
	assert_false(sys_fd_is_hidden(keeper));
	assert_int_equal(fcntl(keeper, F_GETFD), -1);
	close(twin);
}

static void test_keepers_are_counted(void **state)
{
	int twin = bound(), first, second;

	assert_int_equal(port_keepers, 0);
	first = port_keeper_open(twin);
	assert_int_equal(port_keepers, 1);
	second = port_keeper_open(twin);
	assert_int_equal(port_keepers, 2);
	assert_int_not_equal(first, second);
	port_keeper_close(first);
	assert_int_equal(port_keepers, 1);
	port_keeper_close(second);
	assert_int_equal(port_keepers, 0);
	close(twin);
}

static void test_none_is_closed(void **state)
{
	int twin = bound(), keeper = port_keeper_open(twin);

	port_keeper_close(PORT_KEEPER_NONE);
	port_keeper_close(-EMFILE);
	assert_int_equal(port_keepers, 1);
	port_keeper_close(keeper);
	assert_int_equal(port_keepers, 0);
	assert_int_not_equal(fcntl(0, F_GETFD), -1);
	close(twin);
}

static void test_what_cannot_be_kept_is_not_counted(void **state)
{
	struct rlimit limit, none;
	int twin = bound(), spare, copy;

	assert_int_equal(port_keeper_open(-1), -EBADF);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	spare = dup(twin); /* from here on none is free */
	none = (struct rlimit){(rlim_t)spare + 1, limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	copy = port_keeper_open(twin);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(copy, -EMFILE);
	assert_int_equal(port_keepers, 0);
	close(spare);
	close(twin);
}

static void *open_and_close(void *twin)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		int keeper = port_keeper_open(*(int *)twin);

		if (keeper < 0)
			return twin; /* failed */
		port_keeper_close(keeper);
	}
	return NULL;
}

/* Rings count at the same time. */
static void test_no_count_is_lost(void **state)
{
	pthread_t threads[THREADS];
	int twin = bound();
	void *failed;

	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, &twin), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	assert_int_equal(port_keepers, 0);
	close(twin);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_port_is_kept_after_the_twin_is_closed),
	cmocka_unit_test(test_the_program_does_not_see_it),
	cmocka_unit_test(test_keepers_are_counted),
	cmocka_unit_test(test_none_is_closed),
	cmocka_unit_test(test_what_cannot_be_kept_is_not_counted),
	cmocka_unit_test(test_no_count_is_lost),
};

VMA_TEST_MAIN("sock/port_keeper", tests, NULL, NULL)
