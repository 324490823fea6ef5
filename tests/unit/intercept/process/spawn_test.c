/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A signal handler that leaves the making of a child by siglongjmp(), and one that makes a child itself.
 * The C library's functions are the test's: the signal comes in the middle of them.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <time.h>

#include "base/signals.h"
#include "base/sys.h"
#include "intercept/process/inherited.h"
#include "intercept/wrap.h"
#include "tests/unit/intercept/fake_sock.h"
#include "tests/vma_test.h"

#define PATIENCE 30 /* sec: it only ends a hang */

static int ours; /* a socket that the child inherits */
static sigjmp_buf out;
static bool interrupt; /* the next call of the C library is interrupted */
static int spawned;    /* calls of the C library that were not left */
static int lent;       /* of them, those whose program inherits sockets */

static bool is_lent(char *const *env)
{
	while (env && *env) {
		if (!strncmp(*env++, INHERITED_NAME "=", strlen(INHERITED_NAME) + 1))
			return true;
	}
	return false;
}

static void called(char *const *env)
{
	bool now = interrupt;

	interrupt = false;
	if (now)
		raise(SIGUSR1);
	spawned++;
	lent += is_lent(env);
}

static int fake_spawn(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
		      const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	called(env);
	return 0;
}

static FILE *fake_popen(const char *command, const char *type)
{
	called(environ);
	return stdin;
}

static int spawn(void)
{
	char *args[] = {(char *)"true", NULL};

	return posix_spawn(NULL, "/bin/true", NULL, NULL, args, environ);
}

static int spawnp(void)
{
	char *args[] = {(char *)"true", NULL};

	return posix_spawnp(NULL, "true", NULL, NULL, args, environ);
}

static int open_pipe(void)
{
	return popen("true", "r") ? 0 : errno;
}

static int (*const ways[])(void) = {spawn, spawnp, open_pipe};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void leave(int sig)
{
	siglongjmp(out, 1);
}

static void handle(int sig, void (*fn)(int sig))
{
	struct sigaction act = {.sa_handler = fn};

	assert_int_equal(sigaction(sig, &act, NULL), 0);
}

static int hidden_fds(void)
{
	int n = 0;

	for (int fd = sys_fd_next_hidden(0); fd >= 0; fd = sys_fd_next_hidden(fd + 1))
		n++;
	return n;
}

static int reset(void **state)
{
	fake_reset();
	fake.lends = true;
	libc.posix_spawn = fake_spawn;
	libc.posix_spawnp = fake_spawn;
	libc.popen = fake_popen;
	spawned = lent = 0;
	/* As if this were the library: programs are started with it. */
	if (setenv("LD_PRELOAD", program_invocation_short_name, 1))
		return -1;
	ours = socket(AF_INET, SOCK_STREAM, 0);
	return ours < 0;
}

static int finish(void **state)
{
	unsetenv("LD_PRELOAD");
	return close(ours);
}

/* ---- left by a jump ---------------------------------------------------------------------- */

static void spawn_and_leave(int (*way)(void))
{
	interrupt = true;
	if (!sigsetjmp(out, 1)) {
		(void)way();
		fail_msg("the call was not left");
	}
}

static void *in_thread(void *way)
{
	int (*fn)(void) = *(int (**)(void))way;

	return (void *)(intptr_t)fn();
}

/* Another thread makes a child; 0 or errno. It waits for as long as a lock is kept. */
static int in_another_thread(int (*way)(void))
{
	struct timespec until;
	pthread_t thread;
	void *rc;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE;
	assert_int_equal(pthread_create(&thread, NULL, in_thread, &way), 0);
	if (pthread_timedjoin_np(thread, &rc, &until))
		fail_msg("the other thread hangs");
	return (int)(intptr_t)rc;
}

/* Nothing is kept: no lock, no descriptor, no variable, no blocked signal. */
static void test_a_child_is_made_after_the_making_of_one_was_left(void **state)
{
	for (unsigned i = 0; i < WAYS; i++) {
		int fds = hidden_fds(), fd = dup(0), next;

		close(fd);
		handle(SIGUSR1, leave);
		spawned = lent = 0;
		spawn_and_leave(ways[i]);
		assert_int_equal(spawned, 0);
		assert_null(getenv(INHERITED_NAME));
		assert_false(signals_are_blocked());
		for (unsigned j = 0; j < WAYS; j++) {
			assert_int_equal(ways[j](), 0);
			assert_int_equal(in_another_thread(ways[j]), 0);
		}
		assert_int_equal(spawned, 2 * WAYS);
		assert_int_equal(lent, 2 * WAYS);
		next = dup(0);
		close(next);
		assert_int_equal(next, fd);
		assert_int_equal(hidden_fds(), fds);
		spawn_and_leave(ways[i]); /* again */
		assert_int_equal(ways[i](), 0);
		assert_null(getenv(INHERITED_NAME));
	}
}

/* ---- a handler that makes a child --------------------------------------------------------- */

static int (*handler_way)(void);
static int handler_rc;

static void spawn_in_handler(int sig)
{
	handler_rc = handler_way();
}

/* It would wait for the thread that it interrupts. */
static void test_a_handler_is_refused_meanwhile(void **state)
{
	handle(SIGUSR1, spawn_in_handler);
	for (unsigned i = 0; i < WAYS * WAYS; i++) {
		spawned = 0;
		handler_way = ways[i % WAYS];
		interrupt = true;
		assert_int_equal(ways[i / WAYS](), 0);
		assert_int_equal(handler_rc, EAGAIN);
		assert_int_equal(spawned, 1);
		raise(SIGUSR1); /* not any more */
		assert_int_equal(handler_rc, 0);
		assert_int_equal(spawned, 2);
	}
}

/* A program without the library gets nothing: nobody waits for anybody. */
static void test_a_plain_program_is_started_by_a_handler_too(void **state)
{
	unsetenv("LD_PRELOAD");
	handler_way = spawn;
	handle(SIGUSR1, spawn_in_handler);
	interrupt = true;
	assert_int_equal(spawn(), 0);
	assert_int_equal(handler_rc, 0);
	assert_int_equal(spawned, 2);
	assert_int_equal(lent, 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, reset, finish)

static const struct CMUnitTest tests[] = {
	CASE(test_a_handler_is_refused_meanwhile),
	CASE(test_a_plain_program_is_started_by_a_handler_too),
	CASE(test_a_child_is_made_after_the_making_of_one_was_left),
};

VMA_TEST_MAIN("intercept/spawn", tests, NULL, NULL)
