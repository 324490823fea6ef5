/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that use io_uring.  It is for the life of a process, so each case has a process of its
 * own; the linker replaces dl_iterate_phdr(), which tells the libraries that are loaded.
 */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "fake_sock.h"
#include "intercept/fdtable.h"
#include "intercept/uring.h"
#include "tests/vma_test.h"

int __wrap_dl_iterate_phdr(int (*fn)(struct dl_phdr_info *info, size_t size, void *arg), void *arg);

static const char *loaded; /* the name of a library besides others */
static unsigned looks;

int __wrap_dl_iterate_phdr(int (*fn)(struct dl_phdr_info *info, size_t size, void *arg), void *arg)
{
	const char *names[] = {"", "linux-vdso.so.1", "/lib/libc.so.6", loaded, "/lib/ld.so"};
	int rc = 0;

	looks++;
	for (unsigned i = 0; i < 5 && !rc; i++) {
		struct dl_phdr_info info = {.dlpi_name = names[i]};

		rc = fn(&info, sizeof(info), arg);
	}
	return rc;
}

static char output[4096]; /* what the case has logged */

/* Runs a case in a process; its log goes to `output`. */
static void run(void (*fn)(void))
{
	int log = memfd_create("log", 0), status;
	ssize_t n;
	pid_t pid;

	fake_reset();
	pid = fork();
	if (!pid) {
		int terminal = sys_fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

		sys_call(SYS_dup3, log, STDERR_FILENO, 0, 0, 0, 0);
		fn();
		sys_call(SYS_dup3, terminal, STDERR_FILENO, 0, 0, 0, 0);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	n = pread(log, output, sizeof(output) - 1, 0);
	assert_true(n >= 0);
	output[n] = '\0';
	close(log);
	if (status)
		print_error("%s", output);
	assert_int_equal(status, 0);
}

static unsigned lines(void)
{
	unsigned n = 0;

	for (const char *c = output; *c; c++)
		n += *c == '\n';
	return n;
}

static int tcp(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	return fd;
}

static int ours(void)
{
	int fd = tcp();

	assert_non_null(fd_get(fd).sk);
	return fd;
}

/* ---- liburing ---------------------------------------------------------------------------- */

static void use_none(void)
{
	assert_false(uring_is_used());
	assert_false(uring_is_used());
	assert_int_equal(looks, 1); /* at the first socket only */
	ours();
	loaded = "/usr/lib/liburing.so.2"; /* later */
	ours();
	assert_false(uring_is_used());
	assert_int_equal(looks, 1);
}

static void test_a_program_without_it_keeps_its_sockets(void **state)
{
	static const char *const others[] = {"liburing.so.2", "/usr/lib/liburing-ffi.so.2",
					     "/usr/lib/libmyuring.so", "/liburing.so/libother.so",
					     "/usr/lib/liburing"};

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		loaded = others[i];
		run(use_none);
		assert_string_equal(output, "");
	}
}

static void use_liburing(void)
{
	int fd;

	errno = ETXTBSY;
	assert_true(uring_is_used());
	assert_int_equal(errno, ETXTBSY);
	fd = tcp();
	assert_null(fd_get(fd).sk);
	assert_true(sys_fcntl(fd, F_GETFD, 0) >= 0);
	assert_int_equal(looks, 1);
	assert_int_equal(fake.to_kernel, 0);
}

static void test_liburing_leaves_sockets_to_the_kernel(void **state)
{
	static const char *const names[] = {"/usr/lib/liburing.so.2", "/opt/liburing.so",
					    "/a/liburing.so.2.3"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		loaded = names[i];
		run(use_liburing);
		assert_int_equal(lines(), 1);
		assert_non_null(strstr(output, "WARNING: the program uses io_uring"));
	}
}

/* ---- the system call ---------------------------------------------------------------------- */

static void begin_with_sockets(void)
{
	int fds[3], copy, epfd, later;

	for (int i = 0; i < 3; i++)
		fds[i] = ours();
	copy = dup(fds[2]);
	epfd = epoll_create1(0);
	errno = ETXTBSY;
	uring_used();
	assert_int_equal(errno, ETXTBSY);
	for (int i = 0; i < 3; i++)
		assert_null(fd_get(fds[i]).sk);
	assert_null(fd_get(copy).sk);
	assert_non_null(fd_get(epfd).sk); /* it is no socket */
	assert_int_equal(fake.to_kernel, 3);
	assert_int_equal(fake.verdict, VERDICT_CALL);
	assert_int_equal(fake.n_closed, 0);
	assert_true(uring_is_used());
	later = tcp();
	assert_null(fd_get(later).sk);
	/* Once is enough: what is ours now stays. */
	fake.to_kernel = 0;
	uring_used();
	assert_int_equal(fake.to_kernel, 0);
	assert_non_null(fd_get(epfd).sk);
}

static void test_sockets_fall_back_when_the_first_io_uring_is_made(void **state)
{
	loaded = "";
	run(begin_with_sockets);
	assert_int_equal(lines(), 1);
	assert_non_null(strstr(output, "from now on the kernel serves its sockets"));
}

static void begin_with_connections(void)
{
	int connected = ours(), copy = dup(connected), other = ours();
	struct sock_ref ref = fd_get(connected);

	fake.stays = ref.sk;
	uring_used();
	assert_int_equal(fake.to_kernel, 1);
	assert_null(fd_get(other).sk);
	/* The library serves the connection as before. */
	assert_true(fake_is_open(ref));
	assert_ptr_equal(fd_get(connected).sk, ref.sk);
	assert_ptr_equal(fd_get(copy).sk, ref.sk);
	assert_null(fd_get(tcp()).sk);
}

static void test_connections_that_cannot_are_told_by_their_descriptors(void **state)
{
	loaded = "";
	run(begin_with_connections);
	assert_int_equal(lines(), 2);
	assert_non_null(strstr(output, "WARNING: 2 descriptors of existing connections"));
}

static void begin_by_syscall(void)
{
	int fd = ours();

	errno = 0;
	assert_int_equal(syscall(SYS_io_uring_setup, 0L, NULL),
			 -1); /* whether it succeeds or not */
	assert_true(errno);
	assert_null(fd_get(fd).sk);
	assert_true(uring_is_used());
}

static void test_the_system_call_is_seen(void **state)
{
	loaded = "";
	run(begin_by_syscall);
	assert_int_equal(lines(), 1);
}

/* A child of vfork() has its parent's memory: what it makes is its own. */
static void begin_in_vfork_child(void)
{
	int fd = ours(), status;
	pid_t pid = vfork();

	if (!pid) {
		uring_used();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_non_null(fd_get(fd).sk);
	assert_int_equal(fake.to_kernel, 0);
	assert_false(uring_is_used());
	ours();
}

static void test_a_child_of_vfork_changes_nothing(void **state)
{
	loaded = "";
	run(begin_in_vfork_child);
	assert_string_equal(output, "");
}

#define CALLERS 8

static void *begin_at_once(void *barrier)
{
	pthread_barrier_wait(barrier);
	uring_used();
	return NULL;
}

static void begin_in_threads(void)
{
	pthread_barrier_t barrier;
	pthread_t threads[CALLERS];

	for (int i = 0; i < 20; i++)
		ours();
	pthread_barrier_init(&barrier, NULL, CALLERS);
	for (int i = 0; i < CALLERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, begin_at_once, &barrier), 0);
	for (int i = 0; i < CALLERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(fake.to_kernel, 20);
	assert_int_equal(fd_next(0), -1);
}

static void test_one_of_several_threads_does_it(void **state)
{
	loaded = "";
	run(begin_in_threads);
	assert_int_equal(lines(), 1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_program_without_it_keeps_its_sockets),
	cmocka_unit_test(test_liburing_leaves_sockets_to_the_kernel),
	cmocka_unit_test(test_sockets_fall_back_when_the_first_io_uring_is_made),
	cmocka_unit_test(test_connections_that_cannot_are_told_by_their_descriptors),
	cmocka_unit_test(test_the_system_call_is_seen),
	cmocka_unit_test(test_a_child_of_vfork_changes_nothing),
	cmocka_unit_test(test_one_of_several_threads_does_it),
};

VMA_TEST_MAIN("intercept/uring", tests, NULL, NULL)
