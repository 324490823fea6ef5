/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that close, copy and adjust descriptors: what becomes of the table, of the twin, and of errno,
 * also when the call fails.  calls_test has the usual ways, and those of forked processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "fake_sock.h"
#include "intercept/wrap.h"
#include "tests/vma_test.h"

int close_range(unsigned first, unsigned last, int flags);
void closefrom(int first);
int fcntl64(int fd, int cmd, ...);

static int hidden; /* of the library */

static int reset(void **state)
{
	fake_reset();
	hidden = sys_fd_hide(sys_eventfd(0, 0));
	return 0;
}

static int finish(void **state)
{
	sys_close(hidden);
	assert_int_equal(fd_next(0), -1); /* each case closes what it made */
	return 0;
}

static int tcp(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0 && fd_get(fd).sk);
	return fd;
}

static bool is_open(int fd)
{
	return sys_fcntl(fd, F_GETFD, 0) >= 0;
}

static void close_unseen(int fd)
{
	sys_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

#define FAILS(call, error)                      \
	do {                                    \
		errno = 0;                      \
		assert_int_equal((call), -1);   \
		assert_int_equal(errno, error); \
	} while (0)

/* The fake sock changes errno wherever it is called. */
#define LEAVES_ERRNO(call)                        \
	do {                                      \
		errno = ETXTBSY;                  \
		call;                             \
		assert_int_equal(errno, ETXTBSY); \
	} while (0)

/* ---- the twin ---------------------------------------------------------------------------- */

static void test_the_twin_stays_while_other_names_go(void **state)
{
	int fd = tcp(), copies[3];
	struct sock *sk = fd_get(fd).sk;

	copies[0] = dup(fd);
	copies[1] = dup(copies[0]);
	copies[2] = dup(fd);
	for (int i = 2; i >= 0; i--) {
		LEAVES_ERRNO(close(copies[i]));
		assert_int_equal(sk->twin, fd);
	}
	assert_true(is_open(fd));
	assert_int_equal(fake.n_closed, 0);
	LEAVES_ERRNO(close(fd));
	assert_int_equal(fake.n_closed, 1);
	assert_ptr_equal(fake.closed, sk);
	assert_false(is_open(fd));
}

static void test_the_twin_becomes_another_name_when_its_own_goes(void **state)
{
	int fd = tcp(), copy = dup(fd), third = dup(copy);
	struct sock *sk = fd_get(fd).sk;

	LEAVES_ERRNO(close(fd));
	assert_true(sk->twin == copy || sk->twin == third);
	close(copy);
	assert_int_equal(sk->twin, third);
	assert_int_equal(fake.n_closed, 0);
	close(third);
	assert_int_equal(fake.n_closed, 1);
}

/* The last name stays the twin until the socket is closed: it is still open then. */
static void test_fd_drop_leaves_the_descriptor_open(void **state)
{
	int fd = tcp();
	struct sock *sk = fd_get(fd).sk;

	LEAVES_ERRNO(fd_drop(fd));
	assert_null(fd_get(fd).sk);
	assert_int_equal(fake.n_closed, 1);
	assert_int_equal(sk->twin, fd);
	assert_true(is_open(fd));
	fd_drop(fd);
	fd_drop(-1);
	assert_int_equal(fake.n_closed, 1);
	close(fd);
}

/* ---- numbers that were closed unseen ----------------------------------------------------- */

static void test_a_stale_name_takes_nothing_from_the_others(void **state)
{
	int fd = tcp(), copy = dup(fd);
	struct sock_ref ref = fd_get(fd);

	close_unseen(fd);
	assert_int_equal(fd_fresh(dup(0)), fd);
	assert_null(fd_get(fd).sk);
	assert_true(fake_is_open(ref));
	assert_int_equal(ref.sk->twin, copy);
	close(copy);
	assert_false(fake_is_open(ref));
	close(fd);
}

static void test_a_stale_last_name_closes_the_socket_without_its_twin(void **state)
{
	int fd = tcp();
	struct sock *sk = fd_get(fd).sk;

	close_unseen(fd);
	assert_int_equal(libc.dup(0), fd);
	LEAVES_ERRNO(assert_int_equal(fd_fresh(fd), fd));
	assert_int_equal(fake.n_closed, 1);
	assert_int_equal(sk->twin, -1);
	assert_true(is_open(fd)); /* it is another file by now */
	assert_int_equal(fd_fresh(fd), fd);
	assert_int_equal(fake.n_closed, 1);
	close(fd);
}

static void test_a_hidden_number_that_comes_again_is_the_programs(void **state)
{
	int number = sys_fd_hide(sys_eventfd(0, 0));

	close_unseen(number);
	assert_true(sys_fd_is_hidden(number));
	assert_int_equal(dup2(0, number), -1); /* nothing says yet that it was closed */
	assert_int_equal(fd_fresh(libc.dup2(0, number)), number);
	assert_false(sys_fd_is_hidden(number));
	assert_int_equal(close(number), 0);
	assert_false(is_open(number));
	assert_int_equal(fd_fresh(-1), -1);
}

/* ---- copies ------------------------------------------------------------------------------ */

static void test_a_copy_that_fails_is_no_name(void **state)
{
	struct rlimit limit, few;
	int fd = tcp();

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = (struct rlimit){(rlim_t)fd + 1, limit.rlim_max};
	for (int other = dup(0); other <= fd; other = dup(0))
		few.rlim_cur = (rlim_t)other + 1; /* the numbers below are taken */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (libc.dup(0) >= 0)
		;
	FAILS(dup(fd), EMFILE);
	FAILS(fcntl(fd, F_DUPFD, 0), EMFILE);
	FAILS(dup2(fd, (int)few.rlim_cur), EBADF);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	FAILS(fcntl(fd, F_DUPFD_CLOEXEC, -1), EINVAL);
	assert_int_equal(fd_next(0), fd);
	assert_int_equal(fd_next(fd + 1), -1);
	for (int other = fd + 1; other < (int)few.rlim_cur; other++)
		if (!sys_fd_is_hidden(other))
			close(other);
	close(fd);
}

static void test_what_replaces_nothing_closes_nothing(void **state)
{
	int fd = tcp(), other = tcp();
	struct sock_ref ref = fd_get(other);

	FAILS(dup3(fd, other, O_APPEND), EINVAL);
	FAILS(dup3(other, other, O_CLOEXEC), EINVAL);
	FAILS(dup3(9999, other, 0), EBADF);
	FAILS(dup2(9999, other), EBADF);
	FAILS(dup2(9999, 9999), EBADF);
	FAILS(dup2(fd, -1), EBADF);
	assert_int_equal(dup2(other, other), other);
	assert_true(fake_is_open(ref));
	assert_ptr_equal(fd_get(other).sk, ref.sk);
	assert_int_equal(fake.n_closed, 0);
	close(fd);
	close(other);
}

static void test_a_file_may_replace_a_socket(void **state)
{
	int fd = tcp();
	struct sock_ref ref = fd_get(fd);

	LEAVES_ERRNO(assert_int_equal(dup3(0, fd, O_CLOEXEC), fd));
	assert_false(fake_is_open(ref));
	assert_null(fd_get(fd).sk);
	assert_int_equal(sys_fcntl(fd, F_GETFD, 0), FD_CLOEXEC);
	close(fd);
}

static void test_hidden_descriptors_are_not_replaced(void **state)
{
	int fd = tcp();

	FAILS(dup2(fd, hidden), EBUSY);
	FAILS(dup3(fd, hidden, 0), EBUSY);
	FAILS(close(hidden), EBADF);
	assert_true(is_open(hidden));
	assert_null(fd_get(hidden).sk);
	close(fd);
}

static void test_fcntl64_copies_as_fcntl(void **state)
{
	int fd = tcp(), copy = fcntl64(fd, F_DUPFD, 50);

	assert_true(copy >= 50);
	assert_ptr_equal(fd_get(copy).sk, fd_get(fd).sk);
	assert_int_equal(fcntl64(fd, F_SETFL, O_NONBLOCK), 0);
	assert_true(fd_get(fd).sk->nonblock);
	close(fd);
	close(copy);
	assert_int_equal(fake.n_closed, 1);
}

/* ---- ranges ------------------------------------------------------------------------------ */

static void test_a_range_closes_what_is_in_it(void **state)
{
	int inside = sys_fd_hide(sys_eventfd(0, 0)); /* in the middle of the range, ... */
	int fds[4] = {inside - 20, inside - 10, inside + 10, inside + 20};
	struct sock_ref refs[4];

	for (int i = 0; i < 4; i++) {
		int fd = tcp();

		assert_int_equal(dup2(fd, fds[i]), fds[i]);
		close(fd);
		refs[i] = fd_get(fds[i]);
	}
	LEAVES_ERRNO(assert_int_equal(close_range((unsigned)fds[1], (unsigned)fds[2], 0), 0));
	assert_true(fake_is_open(refs[0]) && fake_is_open(refs[3]));
	assert_false(fake_is_open(refs[1]) || fake_is_open(refs[2]));
	assert_true(is_open(fds[0]) && is_open(fds[3]) && is_open(inside));
	assert_false(is_open(fds[1]) || is_open(fds[2]));
	/* ... at its begin, and at its end */
	assert_int_equal(close_range((unsigned)inside, (unsigned)fds[3], 0), 0);
	assert_true(is_open(inside) && !is_open(fds[3]));
	assert_int_equal(close_range((unsigned)fds[0], (unsigned)inside, 0), 0);
	assert_true(is_open(inside) && !is_open(fds[0]));
	assert_int_equal(fake.n_closed, 4);
	sys_close(inside);
}

static void test_a_range_that_is_wrong_closes_nothing(void **state)
{
	int fd = tcp();
	unsigned first = (unsigned)fd;

	FAILS(close_range(first + 1, first, 0), EINVAL);
	FAILS(close_range(first, ~0u, 1 << 20), EINVAL);
	assert_int_equal(close_range(~0u - 1, ~0u, 0), 0);
	assert_int_equal(close_range(first, ~0u, CLOSE_RANGE_CLOEXEC), 0);
	assert_int_equal(sys_fcntl(fd, F_GETFD, 0), FD_CLOEXEC);
	assert_ptr_equal(fd_get(fd).sk->twin, fd);
	assert_int_equal(fake.n_closed, 0);
	close(fd);
}

/* A descriptor that the thread made after CLOSE_RANGE_UNSHARE. */
static void *close_unshared(void *arg)
{
	assert_int_equal(close_range(5000, 5000, CLOSE_RANGE_UNSHARE), 0);
	return (void *)(intptr_t)sys_fcntl(0, F_DUPFD, 300);
}

static bool is_shared(void)
{
	pthread_t thread;
	bool shared;
	void *fd;

	assert_int_equal(pthread_create(&thread, NULL, close_unshared, NULL), 0);
	pthread_join(thread, &fd);
	assert_true((intptr_t)fd >= 300);
	shared = is_open((int)(intptr_t)fd);
	if (shared)
		libc.close((int)(intptr_t)fd);
	return shared;
}

/* The library's thread would not have the sockets that come. */
static void test_the_table_stays_shared_while_there_are_sockets(void **state)
{
	int fd = tcp();

	assert_true(is_shared());
	close(fd);
	assert_false(is_shared());
}

static void in_child(void (*fn)(int fd), int fd)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		fn(fd);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void close_from_three(int fd)
{
	int high = sys_fcntl(0, F_DUPFD, 500);

	fork_adopt();
	hidden = sys_fd_hide(sys_eventfd(0, 0)); /* of this process */
	LEAVES_ERRNO(closefrom(high + 1));
	assert_true(is_open(high));
	LEAVES_ERRNO(closefrom(3));
	assert_false(is_open(high) || is_open(fd));
	assert_true(is_open(2) && is_open(hidden));
}

static void close_from_below_zero(int fd)
{
	fork_adopt();
	hidden = sys_fd_hide(sys_eventfd(0, 0));
	LEAVES_ERRNO(closefrom(-5));
	for (int i = 0; i < 1024; i++)
		assert_true(!is_open(i) || sys_fd_is_hidden(i));
	assert_true(is_open(hidden));
}

static void test_closefrom_closes_all_from_there(void **state)
{
	int fd = libc.dup(0);

	in_child(close_from_three, fd);
	in_child(close_from_below_zero, fd);
	close(fd);
}

static void test_closefrom_ends_sockets(void **state)
{
	int fd = fcntl(tcp(), F_DUPFD, 600);
	struct sock_ref ref = fd_get(fd);

	close(ref.sk->twin);
	LEAVES_ERRNO(closefrom(601));
	assert_true(fake_is_open(ref));
	LEAVES_ERRNO(closefrom(600));
	assert_false(fake_is_open(ref));
	assert_false(is_open(600));
}

/* ---- flags ------------------------------------------------------------------------------- */

static void test_a_flag_that_is_not_set_is_not_noted(void **state)
{
	int fd = tcp(), *bad = NULL;
	struct sock *sk = fd_get(fd).sk;

	assert_int_equal(ioctl(fd, FIONBIO, &(int){1}), 0);
	FAILS(ioctl(fd, FIONBIO, bad), EFAULT);
	FAILS(ioctl(fd, FIOASYNC, bad), EFAULT);
	assert_true(sk->nonblock);
	assert_int_equal(fake.n_async, 0);
	close(fd);
	FAILS(fcntl(fd, F_SETFL, O_NONBLOCK), EBADF);
	FAILS(ioctl(fd, FIONBIO, &(int){1}), EBADF);
	assert_int_equal(fake.ops, 0);
}

static void test_an_epoll_set_has_flags_of_the_kernel_alone(void **state)
{
	int fd = epoll_create1(0);
	struct sock *sk = fd_get(fd).sk;

	assert_non_null(sk);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(ioctl(fd, FIONBIO, &(int){1}), 0);
	assert_false(sk->nonblock);
	assert_int_equal(fake.n_async + fake.ops, 0);
	close(fd);
}

/* Until some socket has it: then also that it is taken back. */
static void test_signals_of_a_socket_are_told_by_the_programs_descriptor(void **state)
{
	int fd = tcp(), copy = dup(fd);

	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	assert_int_equal(fake.n_async, 0);
	assert_int_equal(fcntl(copy, F_SETFL, O_ASYNC), 0);
	assert_int_equal(fake.n_async, 1);
	assert_int_equal(fake.async, copy);
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	assert_int_equal(fake.n_async, 2);
	assert_int_equal(fake.async, -fd);
	assert_int_equal(ioctl(copy, FIOASYNC, &(int){1}), 0);
	assert_int_equal(fake.async, copy);
	assert_true(sys_fcntl(fd, F_GETFL, 0) & O_ASYNC);
	assert_int_equal(ioctl(fd, FIOASYNC, &(int){0}), 0);
	assert_int_equal(fake.async, -fd);
	assert_int_equal(fake.n_async, 4);
	close(fd);
	close(copy);
}

static void test_other_ioctls_are_the_sockets(void **state)
{
	int fd = tcp(), n = -1;

	LEAVES_ERRNO(assert_int_equal(ioctl(fd, FIONREAD, &n), 0));
	assert_string_equal(fake.op, "ioctl");
	assert_int_equal(n, -1); /* the kernel was not asked */
	fake.rc_after = fake.ops;
	fake.rc = -EFAULT;
	FAILS(ioctl(fd, FIONREAD, &n), EFAULT);
	fake.rc = SOCK_KERNEL;
	FAILS(ioctl(fd, FIOQSIZE, &n), ENOTTY);
	assert_int_equal(fake.ops, 3);
	close(fd);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, finish)

static const struct CMUnitTest tests[] = {
	CASE(test_the_twin_stays_while_other_names_go),
	CASE(test_the_twin_becomes_another_name_when_its_own_goes),
	CASE(test_fd_drop_leaves_the_descriptor_open),
	CASE(test_a_stale_name_takes_nothing_from_the_others),
	CASE(test_a_stale_last_name_closes_the_socket_without_its_twin),
	CASE(test_a_hidden_number_that_comes_again_is_the_programs),
	CASE(test_a_copy_that_fails_is_no_name),
	CASE(test_what_replaces_nothing_closes_nothing),
	CASE(test_a_file_may_replace_a_socket),
	CASE(test_hidden_descriptors_are_not_replaced),
	CASE(test_fcntl64_copies_as_fcntl),
	CASE(test_a_range_closes_what_is_in_it),
	CASE(test_a_range_that_is_wrong_closes_nothing),
	CASE(test_the_table_stays_shared_while_there_are_sockets),
	CASE(test_closefrom_closes_all_from_there),
	CASE(test_closefrom_ends_sockets),
	CASE(test_a_flag_that_is_not_set_is_not_noted),
	CASE(test_an_epoll_set_has_flags_of_the_kernel_alone),
	CASE(test_signals_of_a_socket_are_told_by_the_programs_descriptor),
	CASE(test_other_ioctls_are_the_sockets),
};

VMA_TEST_MAIN("intercept/fd", tests, NULL, NULL)
