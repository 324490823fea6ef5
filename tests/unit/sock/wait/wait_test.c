/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/param.h"
#include "ring/rings.h"
#include "sock/core/inet_sock.h"
#include "sock/wait/wait.h"

#include "tests/unit/sock/fake_sock.h"

#define LONG 20000 /* msec; longer than any wait */
#define RESULT 14

static struct inet_sock so;
static unsigned holds, others; /* calls */
static unsigned hook_at;       /* runs before the hold with this number */
static void (*hook)(void);
static int hold_rc;

/* ---- other functions that sock.c provides --------------------------------------- */

uint64_t sock_shared_id;

int sock_hold_cold(struct sock_ref ref, struct ring **ring)
{
	(void)ref;
	if (++holds == hook_at)
		hook();
	*ring = rings_nowhere();
	if (hold_rc)
		return hold_rc;
	return ring_hold_cold(*ring) ? 0 : -EAGAIN;
}

void sock_wait_leave(struct sock_ref ref)
{
	__atomic_fetch_sub(&ref.sk->waiters, 1, __ATOMIC_SEQ_CST);
}

void sock_poll_others(const struct sock *sk)
{
	(void)sk;
	others++;
}

/* ---- calls --------------------------------------------------------------------------- */

static int setup(void **state)
{
	(void)state;
	clock_init();
	rings_init(NULL);
	memset(&so, 0, sizeof(so));
	so.sk.type = SOCK_TYPE_TCP;
	so.sk.gen = 1;
	so.sk.home = rings_nowhere();
	so.id = 1;
	list_init(&so.sk.watches);
	params.rx_poll = 0;
	holds = others = hook_at = 0;
	hold_rc = 0;
	sock_shared_id = 0;
	fake_fetches = 0;
	fake_fetch_rc = 0;
	return 0;
}

static struct sock_ref ref(void)
{
	return (struct sock_ref){&so.sk, so.sk.gen};
}

/* The results of one try after the other; the last one repeats. */
struct script {
	ssize_t says[4];
	ssize_t aside; /* result of the aside function */
	unsigned tries, asides;
};

static bool scripted_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct script *script = arg;
	unsigned last = sizeof(script->says) / sizeof(script->says[0]) - 1;

	(void)wait;
	assert_ptr_equal(hold_current, &ring->hold);
	*n = script->says[script->tries < last ? script->tries : last];
	script->tries++;
	return *n > SOCK_FETCH;
}

static ssize_t scripted_aside(void *arg, struct sock_wait *wait)
{
	struct script *script = arg;

	(void)wait;
	assert_null(hold_current);
	script->asides++;
	return script->aside;
}

static ssize_t call_for(struct script *script, uint32_t events, bool dontwait)
{
	struct sock_call call = {
		.ref = ref(), .before = sock_signals, .events = events, .dontwait = dontwait};
	ssize_t n = sock_wait_loop(call, SOCK_WAIT_COLD, scripted_try, scripted_aside, script);

	assert_null(hold_current);
	assert_int_equal(so.sk.waiters, 0);
	assert_true(list_empty(&so.sk.watches));
	return n;
}

static ssize_t receive(struct script *script)
{
	return call_for(script, EPOLLIN, false);
}

#define NEVER                                                              \
	{                                                                  \
		SOCK_TRY_WAIT, SOCK_TRY_WAIT, SOCK_TRY_WAIT, SOCK_TRY_WAIT \
	}

static void becomes_ready(void)
{
	__atomic_fetch_or(&so.sk.events, EPOLLIN, __ATOMIC_RELEASE);
}

/* ---- results ---------------------------------------------------------------------------- */

static void test_the_first_try_has_a_result(void **state)
{
	const ssize_t results[] = {RESULT, 0, -EPIPE, -EAGAIN, SOCK_KERNEL};

	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		struct script script = {.says = {results[i]}};

		assert_int_equal(receive(&script), results[i]);
		assert_int_equal(script.tries, 1);
	}
}

static ssize_t receive_spinning(struct script *script)
{
	struct sock_call call = {.ref = ref(), .before = sock_signals, .events = EPOLLIN};

	return sock_wait_loop(call, HOLD_SPIN, scripted_try, scripted_aside, script);
}

static void test_a_call_of_a_thread_mode_holds_by_itself(void **state)
{
	struct script script = {.says = {SOCK_TRY_AGAIN, RESULT}};

	assert_int_equal(receive_spinning(&script), RESULT);
	assert_int_equal(script.tries, 2);
	assert_int_equal(holds, 0);
}

static void test_a_try_may_ask_to_be_repeated_at_once(void **state)
{
	struct script script = {.says = {SOCK_TRY_AGAIN, SOCK_TRY_ASIDE, RESULT},
				.aside = SOCK_TRY_AGAIN};

	assert_int_equal(call_for(&script, EPOLLIN, true), RESULT);
	assert_int_equal(script.tries, 3);
	assert_int_equal(script.asides, 1);
}

static void test_the_aside_function_may_give_the_result(void **state)
{
	struct script script = {.says = {SOCK_TRY_ASIDE}, .aside = RESULT};

	assert_int_equal(receive(&script), RESULT);
	assert_int_equal(script.tries, 1);
}

/* ---- waiting ------------------------------------------------------------------------------ */

static void test_the_second_try_has_a_result(void **state)
{
	struct script script = {.says = {SOCK_TRY_WAIT, RESULT}};

	hook_at = 2; /* between the try and the sleep */
	hook = becomes_ready;
	assert_int_equal(receive(&script), RESULT);
	assert_int_equal(script.tries, 2);
}

static void arrives(void *arg)
{
	(void)arg;
	assert_true(ring_hold_cold(rings_nowhere()));
	becomes_ready();
	ready_notify(&so.sk, EPOLLIN);
	ring_release_cold(rings_nowhere());
}

static void test_what_arrives_wakes_the_call(void **state)
{
	struct script script = {.says = {SOCK_TRY_ASIDE, RESULT}, .aside = SOCK_TRY_WAIT};
	struct fake_later later;
	nsec_t began = fake_now();

	fake_later_start(&later, 20 * NSEC_PER_MSEC, arrives, NULL);
	assert_int_equal(receive(&script), RESULT);
	assert_true(fake_now() - began >= 20 * NSEC_PER_MSEC);
	assert_int_equal(script.tries, 2);
	fake_later_join(&later);
}

static void test_what_does_not_come_is_waited_for(void **state)
{
	struct script receiver = {.says = NEVER}, sender = {.says = NEVER};
	nsec_t began = fake_now();

	so.rcvtimeo = 20;
	so.sndtimeo = LONG;
	assert_int_equal(receive(&receiver), -EAGAIN);
	assert_true(fake_now() - began >= 20 * NSEC_PER_MSEC);
	so.rcvtimeo = LONG;
	so.sndtimeo = 20;
	began = fake_now();
	assert_int_equal(call_for(&sender, EPOLLOUT, false), -EAGAIN);
	assert_true(fake_now() - began >= 20 * NSEC_PER_MSEC);
}

static void test_a_call_that_must_not_wait_tries_once(void **state)
{
	struct script receiver = {.says = NEVER}, sender = {.says = NEVER};

	assert_int_equal(call_for(&receiver, EPOLLIN, true), -EAGAIN);
	assert_int_equal(receiver.tries, 1);
	assert_int_equal(call_for(&sender, EPOLLOUT, true), -EAGAIN);
	assert_int_equal(sender.tries, 1);
}

/* The datagram may be on another ring of the socket. */
static void test_it_polls_the_other_rings_once(void **state)
{
	struct script script = {.says = NEVER};

	so.n_rings = 2;
	assert_int_equal(call_for(&script, EPOLLIN, true), -EAGAIN);
	assert_int_equal(script.tries, 2);
	assert_int_equal(others, 1);
}

/* The flag belongs to the file: this process was not told. */
static void test_another_process_has_set_o_nonblock(void **state)
{
	struct script script = {.says = NEVER};

	so.sk.nonblock = true;
	sock_shared_id = so.id;
	assert_int_equal(receive(&script), -EAGAIN);
	assert_int_equal(script.tries, 2);
}

/* A nonblocking call that found nothing asks, however long ago it was that it asked before. */
static void test_another_process_has_cleared_o_nonblock(void **state)
{
	nsec_t since;

	so.sk.nonblock = true;
	sock_shared_id = so.id;
	since = clock_now();
	assert_false(sock_wait_blocks_now(ref()));
	so.sk.nonblock = false;
	for (unsigned msec = 1; msec <= 257; msec += 256) {
		while (clock_now() / NSEC_PER_MSEC < since / NSEC_PER_MSEC + msec)
			;
		assert_true(sock_wait_blocks_now(ref()));
	}
}

/* It is closed while the call asks for the flag. */
static void test_a_socket_that_is_closed_has_no_flag(void **state)
{
	struct script script = {.says = NEVER};

	sock_shared_id = so.id;
	fake_nonblock_rc = -EBADF;
	assert_int_equal(receive(&script), -EBADF);
	fake_nonblock_rc = 0;
	assert_int_equal(script.tries, 1);
}

/*
 * ---- the socket moves to another ring, process, or to the kernel
 * -------------------------------
 */

static void leaves(void)
{
	hold_rc = SOCK_KERNEL;
}

static void test_a_socket_that_leaves_for_the_kernel_ends_the_call(void **state)
{
	struct script script = {.says = NEVER};

	hook_at = 2; /* before the call blocks */
	hook = leaves;
	assert_int_equal(receive(&script), SOCK_KERNEL);
	assert_int_equal(script.tries, 1);
}

static void is_closed(void)
{
	hold_rc = -EBADF;
}

static void test_a_socket_that_is_closed_ends_the_call(void **state)
{
	struct script script = {.says = {SOCK_TRY_AGAIN}};

	hook_at = 2; /* the second try */
	hook = is_closed;
	assert_int_equal(receive(&script), -EBADF);
	assert_int_equal(script.tries, 1);
}

static void is_exported(void)
{
	__atomic_fetch_or(&so.sk.events, SOCK_EXPORTED, __ATOMIC_RELAXED);
}

static void test_an_exported_socket_is_fetched(void **state)
{
	struct script script = {.says = {SOCK_FETCH, RESULT}};

	is_exported();
	assert_int_equal(receive(&script), RESULT);
	assert_int_equal(fake_fetches, 1);
	assert_int_equal(fake_patience, 0);
}

static void test_a_nonblocking_call_waits_only_shortly_for_a_fetch(void **state)
{
	struct script script = {.says = {SOCK_FETCH, RESULT}};

	is_exported();
	assert_int_equal(call_for(&script, EPOLLOUT, true), RESULT);
	assert_int_equal(fake_fetches, 1);
	assert_int_equal(fake_patience, SHARE_FETCH_MAX);
}

static void test_a_socket_that_cannot_be_fetched_ends_the_call(void **state)
{
	struct script script = {.says = {SOCK_FETCH}};

	is_exported();
	fake_fetch_rc = -EINTR;
	assert_int_equal(receive(&script), -EINTR);
	assert_int_equal(script.tries, 1);
}

/* A datagram socket or a listener does not report it itself. */
static void test_a_receiver_fetches_what_is_exported_before_it_waits(void **state)
{
	struct script receiver = {.says = {SOCK_TRY_WAIT, RESULT}}, sender = {.says = NEVER};

	is_exported();
	assert_int_equal(receive(&receiver), RESULT);
	assert_int_equal(fake_fetches, 1);
	is_exported();
	so.sndtimeo = 20;
	assert_int_equal(call_for(&sender, EPOLLOUT, false), -EAGAIN);
	assert_int_equal(fake_fetches, 1);
}

/*
 * The connection is exported after the call has tried, and before it sleeps. The exporter woke
 * all sleepers, but not this one, which did not sleep yet. It has to check again, otherwise it
 * never asks for the connection.
 */
static void test_a_call_does_not_block_on_a_socket_that_was_exported(void **state)
{
	struct script script = {.says = {SOCK_TRY_WAIT, SOCK_FETCH, RESULT}};
	nsec_t began = fake_now();

	so.rcvtimeo = LONG;
	hook_at = 2;
	hook = is_exported;
	assert_int_equal(receive(&script), RESULT);
	assert_true(fake_now() - began < LONG * NSEC_PER_MSEC / 2);
	assert_int_equal(fake_fetches, 1);
}

/* ---- signals ---------------------------------------------------------------------------------- */

static bool restarts;

static void is_interrupted(void)
{
	fake_handler(SIGUSR1);
	sock_signals.restart += restarts;
}

/*
 * Results of a call that only tries, one that is interrupted before it waits, and one that
 * waits.
 */
static ssize_t interrupted(struct script *script, bool restart, uint32_t timeout)
{
	struct sock_call call = {.ref = ref(), .before = sock_signals, .events = EPOLLIN};

	so.rcvtimeo = timeout;
	restarts = restart;
	is_interrupted();
	return sock_wait_loop(call, SOCK_WAIT_COLD, scripted_try, scripted_aside, script);
}

/* signal(7): the kernel delays the signal until the call sleeps, or ends the call then. */
static void test_a_handler_that_runs_before_the_wait_ends_the_call(void **state)
{
	struct script script = {.says = NEVER};

	assert_int_equal(interrupted(&script, false, LONG), -EINTR);
	assert_int_equal(interrupted(&script, false, 0), -EINTR);
	/* never restarted, because of the timeout */
	assert_int_equal(interrupted(&script, true, LONG), -EINTR);
}

static void test_a_handler_with_sa_restart_does_not(void **state)
{
	struct script script = {.says = {SOCK_TRY_WAIT, RESULT}};

	so.sk.events = EPOLLIN; /* it does not sleep either */
	assert_int_equal(interrupted(&script, true, 0), RESULT);
}

static void test_an_interrupted_call_tries_once_more(void **state)
{
	struct script script = {.says = {SOCK_TRY_WAIT, RESULT}};

	assert_int_equal(interrupted(&script, false, 0), RESULT);
	assert_int_equal(script.tries, 2);
}

static void test_an_interrupted_call_fetches_no_more(void **state)
{
	struct script script = {.says = {SOCK_TRY_WAIT, SOCK_FETCH}};

	assert_int_equal(interrupted(&script, false, 0), -EINTR);
	assert_int_equal(script.tries, 2);
	assert_int_equal(fake_fetches, 0);
}

/* Between the look at the counts of signals and the sleep. */
static void test_a_handler_that_runs_right_before_the_sleep_ends_the_call(void **state)
{
	struct script script = {.says = NEVER};
	nsec_t began = fake_now();

	restarts = false;
	fake_rings_hook = is_interrupted;
	so.rcvtimeo = LONG;
	assert_int_equal(receive(&script), -EINTR);
	assert_null(fake_rings_hook);
	assert_true(fake_now() - began < LONG * NSEC_PER_MSEC / 2);
}

/* ---- fork() in a wait -------------------------------------------------------------------------- */

/* A callback or a signal handler forks, and this is the child: the socket has a new list. */
static void forks(void)
{
	ready_forks++;
	list_init(&so.sk.watches);
	is_interrupted();
}

static void forks_asleep(void)
{
	fake_rings_hook = forks;
}

static void test_a_forked_child_does_not_touch_the_new_list(void **state)
{
	struct script script = {.says = NEVER};
	struct watch of_a_set;

	restarts = false;
	watch_init(&of_a_set, waiter_self(), &so.sk, EPOLLIN);
	watch_add(&of_a_set);
	fake_rings_hook = forks_asleep;
	assert_int_equal(receive(&script), -EINTR);
	assert_null(fake_rings_hook);
	assert_ptr_equal(so.sk.watches.prev, &so.sk.watches);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_the_first_try_has_a_result, setup),
	cmocka_unit_test_setup(test_a_call_of_a_thread_mode_holds_by_itself, setup),
	cmocka_unit_test_setup(test_a_try_may_ask_to_be_repeated_at_once, setup),
	cmocka_unit_test_setup(test_the_aside_function_may_give_the_result, setup),
	cmocka_unit_test_setup(test_the_second_try_has_a_result, setup),
	cmocka_unit_test_setup(test_what_arrives_wakes_the_call, setup),
	cmocka_unit_test_setup(test_what_does_not_come_is_waited_for, setup),
	cmocka_unit_test_setup(test_a_call_that_must_not_wait_tries_once, setup),
	cmocka_unit_test_setup(test_it_polls_the_other_rings_once, setup),
	cmocka_unit_test_setup(test_another_process_has_set_o_nonblock, setup),
	cmocka_unit_test_setup(test_another_process_has_cleared_o_nonblock, setup),
	cmocka_unit_test_setup(test_a_socket_that_is_closed_has_no_flag, setup),
	cmocka_unit_test_setup(test_a_socket_that_leaves_for_the_kernel_ends_the_call, setup),
	cmocka_unit_test_setup(test_a_socket_that_is_closed_ends_the_call, setup),
	cmocka_unit_test_setup(test_an_exported_socket_is_fetched, setup),
	cmocka_unit_test_setup(test_a_nonblocking_call_waits_only_shortly_for_a_fetch, setup),
	cmocka_unit_test_setup(test_a_socket_that_cannot_be_fetched_ends_the_call, setup),
	cmocka_unit_test_setup(test_a_receiver_fetches_what_is_exported_before_it_waits, setup),
	cmocka_unit_test_setup(test_a_call_does_not_block_on_a_socket_that_was_exported, setup),
	cmocka_unit_test_setup(test_a_handler_that_runs_before_the_wait_ends_the_call, setup),
	cmocka_unit_test_setup(test_a_handler_that_runs_right_before_the_sleep_ends_the_call,
			       setup),
	cmocka_unit_test_setup(test_a_handler_with_sa_restart_does_not, setup),
	cmocka_unit_test_setup(test_an_interrupted_call_tries_once_more, setup),
	cmocka_unit_test_setup(test_an_interrupted_call_fetches_no_more, setup),
	cmocka_unit_test_setup(test_a_forked_child_does_not_touch_the_new_list, setup),
};

VMA_TEST_MAIN("wait", tests, NULL, NULL)
