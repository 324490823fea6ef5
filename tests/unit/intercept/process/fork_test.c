/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Forked children in which a handler of pthread_atfork() makes a call before the library's own handler
 * has run: such a child has begun, and does not wait for its first call.  calls_test has the others.
 */
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "intercept/wrap.h"
#include "tests/unit/intercept/fake_sock.h"
#include "tests/vma_test.h"

/* What the handler does in a child; NULL: nothing. */
static void (*early_call)(void);
static int ours; /* the descriptor of a socket of the parent */

static void in_child_first(void)
{
	if (early_call)
		early_call();
}

/* Before the library registers its handler: the first to be registered is the first that runs. */
__attribute__((constructor(102))) static void register_first(void)
{
	if (pthread_atfork(NULL, NULL, in_child_first))
		abort();
}

static void look_it_up(void)
{
	if (!fd_get(ours).sk)
		_exit(50); /* it is the parent's, until after_fork_child() */
}

static void close_a_copy(void)
{
	if (close(dup(ours)))
		_exit(51);
}

static int reset(void **state)
{
	fake_reset();
	early_call = NULL;
	ours = socket(AF_INET, SOCK_STREAM, 0);
	return ours < 0 || !fd_get(ours).sk;
}

static int finish(void **state)
{
	early_call = NULL;
	return close(ours);
}

/* A child makes the calls; 0, or which of them was wrong. */
static int in_child(int (*calls)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(calls());
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* It has begun when fork() returns, once; the table is its own, and its lock is free. */
static int has_begun(void)
{
	int fd;

	if (fake.forked != 1)
		return 1;
	if (fork_waits() || fd_get(ours).sk)
		return 2;
	if (listen(ours, 1) || fake.ops)
		return 3;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || !fd_get(fd).sk || close(fd))
		return 4;
	return fake.forked == 1 ? 0 : 5;
}

static int has_not_begun(void)
{
	return fake.forked || !fork_waits() || close(dup(ours)) || fake.forked != 1;
}

static void test_a_child_that_made_a_call_has_begun(void **state)
{
	static void (*const calls[])(void) = {look_it_up, close_a_copy};

	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		early_call = calls[i];
		assert_int_equal(in_child(has_begun), 0);
		assert_non_null(fd_get(ours).sk);
	}
}

static void test_a_child_that_made_none_waits(void **state)
{
	assert_int_equal(in_child(has_not_begun), 0);
}

/* A child of it makes no call before its time. */
static int its_child_waits(void)
{
	early_call = NULL;
	fake.forked = 0;
	ours = socket(AF_INET, SOCK_STREAM, 0);
	return in_child(has_not_begun);
}

static int its_child_has_begun(void)
{
	fake.forked = 0;
	ours = socket(AF_INET, SOCK_STREAM, 0);
	return in_child(has_begun);
}

static void test_what_one_child_did_is_not_known_of_the_next(void **state)
{
	early_call = look_it_up;
	assert_int_equal(in_child(its_child_waits), 0);
	assert_int_equal(in_child(its_child_has_begun), 0);
	early_call = NULL;
	assert_int_equal(in_child(has_not_begun), 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, reset, finish)

static const struct CMUnitTest tests[] = {
	CASE(test_a_child_that_made_a_call_has_begun),
	CASE(test_a_child_that_made_none_waits),
	CASE(test_what_one_child_did_is_not_known_of_the_next),
};

VMA_TEST_MAIN("intercept/fork", tests, NULL, NULL)
