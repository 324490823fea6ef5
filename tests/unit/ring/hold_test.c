/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/hold.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "ring/ring.h"

#include "vma_test.h"

static const enum hold_mode modes[] = {HOLD_SINGLE, HOLD_SPIN, HOLD_MUTEX, HOLD_YIELD};
#define N_MODES (sizeof(modes) / sizeof(modes[0]))

static void test_the_ring_a_thread_holds_is_known_to_it(void **state)
{
	struct hold hold;

	for (size_t i = 0; i < N_MODES; i++) {
		hold_init(&hold);
		assert_null(hold_current);
		assert_true(hold_acquire(&hold, modes[i]));
		assert_ptr_equal(hold_current, &hold);
		hold_release(&hold, modes[i]);
		assert_null(hold_current);
	}
}

static void test_a_holder_gets_no_other_ring_and_does_not_wait(void **state)
{
	struct hold hold, other;

	for (size_t i = 0; i < N_MODES; i++) {
		hold_init(&hold);
		hold_init(&other);
		assert_true(hold_acquire(&hold, modes[i]));
		assert_false(hold_acquire(&hold, modes[i]));
		assert_false(hold_acquire(&other, modes[i]));
		assert_false(hold_try(&hold, modes[i]));
		assert_false(hold_try(&other, modes[i]));
		assert_ptr_equal(hold_current, &hold);
		hold_release(&hold, modes[i]);
		assert_true(hold_acquire(&other, modes[i])); /* failed attempts changed nothing */
		hold_release(&other, modes[i]);
	}
}

/* ---- another thread ------------------------------------------------------------- */

struct
try {
	struct hold *hold;
	enum hold_mode mode;
	bool got, named;
};

static void *try_once(void *arg)
{
	struct try *try = arg;

	try->got = hold_try(try->hold, try->mode);
	try->named = hold_current != NULL;
	if (try->got)
		hold_release_other(try->hold, try->mode);
	assert_null(hold_current);
	return NULL;
}

/* The result of hold_try() in another thread (in HOLD_SINGLE: the internal thread). */
static bool other_gets_it(struct hold *hold, enum hold_mode mode)
{
	struct try try = {.hold = hold, .mode = mode};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, try_once, &try), 0);
	pthread_join(thread, NULL);
	assert_int_equal(try.got, try.named);
	return try.got;
}

static void test_trying_a_held_ring_fails(void **state)
{
	struct hold hold;

	for (size_t i = 0; i < N_MODES; i++) {
		hold_init(&hold);
		assert_true(other_gets_it(&hold, modes[i]));
		assert_true(hold_acquire(&hold, modes[i]));
		assert_false(other_gets_it(&hold, modes[i]));
		assert_false(other_gets_it(&hold, modes[i]));
		hold_release(&hold, modes[i]);
		assert_true(other_gets_it(&hold, modes[i]));
		assert_true(hold_acquire(&hold, modes[i])); /* and it can be held again */
		hold_release(&hold, modes[i]);
	}
}

static void test_single_a_try_in_vain_does_not_keep_the_program_waiting(void **state)
{
	struct hold hold;

	hold_init(&hold);
	assert_true(hold_acquire(&hold, HOLD_SINGLE));
	assert_false(other_gets_it(&hold, HOLD_SINGLE));
	assert_null(hold_single.wanted);
	assert_ptr_equal(hold_single.inside, &hold);
	hold_release(&hold, HOLD_SINGLE);
	assert_null(hold_single.inside);
}

struct visitor {
	struct hold hold;
	int in, out; /* atomic: the internal thread holds; it may release */
	int value;   /* written while it holds */
};

static void *visit(void *arg)
{
	struct visitor *v = arg;

	assert_true(hold_try(&v->hold, HOLD_SINGLE));
	__atomic_store_n(&v->in, 1, __ATOMIC_RELEASE);
	usleep(20000);
	v->value = 1;
	hold_release_other(&v->hold, HOLD_SINGLE);
	return NULL;
}

static void test_single_the_program_waits_for_the_internal_thread(void **state)
{
	struct visitor v = {.in = 0};
	pthread_t thread;

	hold_init(&v.hold);
	assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
	while (!__atomic_load_n(&v.in, __ATOMIC_ACQUIRE))
		usleep(100);
	assert_true(hold_acquire(&v.hold, HOLD_SINGLE));
	assert_int_equal(v.value, 1);
	hold_release(&v.hold, HOLD_SINGLE);
	pthread_join(thread, NULL);
}

static void test_single_is_supported_by_this_kernel(void **state)
{
	assert_true(hold_single_supported());
}

/* ---- a second thread ------------------------------------------------------------------ */

/* From now on these system calls of the process fail with EPERM. */
static bool refuse(long first, long second)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)first, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)second, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void *come_second(void *arg)
{
	struct ring *ring = arg;

	if (!ring_hold(ring, HOLD_SINGLE))
		return NULL;
	ring_release(ring, HOLD_SINGLE);
	return ring;
}

/*
 * In a child where these calls are refused: the exit status is 1 if the second thread held the
 * ring, 2 if the process went over, 4 if the first one still holds it; 64: the test failed.
 */
static int arrive_without(long first, long second)
{
	static struct ring ring;
	pthread_t thread;
	void *held = NULL;
	int status;
	pid_t pid = fork();

	if (pid) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		return WEXITSTATUS(status);
	}
	log_set_level(LOG_PANIC);
	clock_init();
	ring_mode = HOLD_SINGLE;
	hold_single_begin();
	ring_init(&ring, NULL, 0);
	if (!come_second(&ring) || !refuse(first, second) ||
	    pthread_create(&thread, NULL, come_second, &ring) || pthread_join(thread, &held))
		_exit(64);
	_exit((held ? 1 : 0) | (ring_mode == HOLD_SPIN ? 2 : 0) | (come_second(&ring) ? 4 : 0));
}

static void test_a_second_thread_makes_the_process_go_over(void **state)
{
	assert_int_equal(arrive_without(-1, -1), 1 | 2 | 4);
}

static void test_without_membarrier_it_visits_the_processors(void **state)
{
	assert_int_equal(arrive_without(SYS_membarrier, -1), 1 | 2 | 4);
}

/* The first thread goes on without locks, so the second one must not enter. */
static void test_without_any_fence_the_second_thread_is_refused(void **state)
{
	assert_int_equal(arrive_without(SYS_membarrier, SYS_sched_setaffinity), 4);
}

/* ---- signals --------------------------------------------------------------------- */

static struct hold interrupted;
static enum hold_mode interrupted_mode;
static int refused;

static void handler(int sig)
{
	refused += !hold_acquire(&interrupted, interrupted_mode);
	refused += !hold_try(&interrupted, interrupted_mode);
}

static void test_a_signal_handler_is_refused_while_its_thread_holds(void **state)
{
	struct sigaction act = {.sa_handler = handler}, old;

	sigaction(SIGUSR1, &act, &old);
	for (size_t i = 0; i < N_MODES; i++) {
		interrupted_mode = modes[i];
		hold_init(&interrupted);
		refused = 0;
		assert_true(hold_acquire(&interrupted, modes[i]));
		raise(SIGUSR1);
		assert_int_equal(refused, 2);
		assert_ptr_equal(hold_current, &interrupted);
		hold_release(&interrupted, modes[i]);
	}
	sigaction(SIGUSR1, &old, NULL);
}

static int setup(void **state)
{
	hold_single_begin();
	return !hold_single_supported();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_ring_a_thread_holds_is_known_to_it),
	cmocka_unit_test(test_a_holder_gets_no_other_ring_and_does_not_wait),
	cmocka_unit_test(test_trying_a_held_ring_fails),
	cmocka_unit_test(test_single_a_try_in_vain_does_not_keep_the_program_waiting),
	cmocka_unit_test(test_single_the_program_waits_for_the_internal_thread),
	cmocka_unit_test(test_single_is_supported_by_this_kernel),
	cmocka_unit_test(test_a_second_thread_makes_the_process_go_over),
	cmocka_unit_test(test_without_membarrier_it_visits_the_processors),
	cmocka_unit_test(test_without_any_fence_the_second_thread_is_refused),
	cmocka_unit_test(test_a_signal_handler_is_refused_while_its_thread_holds),
};

VMA_TEST_MAIN("hold", tests, setup, NULL)
