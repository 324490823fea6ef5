/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/param.h"
#include "ring/rings.h"
#include "sock/core/inet_sock.h"
#include "sock/wait/wait.h"

#include "tests/unit/sock/fake_sock.h"

#define LONG (20 * NSEC_PER_SEC) /* nobody waits so long */

static struct inet_sock so;

/* ---- what sock.c provides, besides ------------------------------------------------ */

int sock_hold_cold(struct sock_ref ref, struct ring **ring)
{
	(void)ref;
	*ring = rings_nowhere();
	return ring_hold_cold(*ring) ? 0 : -EAGAIN;
}

void sock_wait_leave(struct sock_ref ref)
{
	__atomic_fetch_sub(&ref.sk->waiters, 1, __ATOMIC_SEQ_CST);
}

void sock_poll_others(const struct sock *sk)
{
	(void)sk;
}

/* ---- the tests --------------------------------------------------------------------- */

static int setup(void **state)
{
	(void)state;
	clock_init();
	rings_init(NULL);
	memset(&so, 0, sizeof(so));
	so.sk.type = SOCK_TYPE_TCP;
	so.sk.gen = 1;
	so.sk.home = rings_nowhere();
	list_init(&so.sk.watches);
	params.rx_poll = 0;
	return 0;
}

static struct sock_ref ref(void)
{
	return (struct sock_ref){&so.sk, so.sk.gen};
}

/* How long one wait for data took that nothing ends but its deadline. */
static nsec_t one_wait(nsec_t deadline, int *rc)
{
	SOCK_WAIT(wait);
	nsec_t began = fake_now();

	sock_wait_begin(&wait, ref(), EPOLLIN, deadline);
	*rc = sock_wait_next(&wait); /* without a queue there is nothing to poll: it sleeps */
	return fake_now() - began;
}

static void test_what_does_not_come_is_waited_for(void **state)
{
	int rc;

	assert_true(one_wait(20 * NSEC_PER_MSEC, &rc) >= 20 * NSEC_PER_MSEC);
	assert_int_equal(list_empty(&so.sk.watches), true);
}

/*
 * The connection went to another process after the call had looked, and before it lay
 * down: those who woke its sleepers did not see this one. It has to look again, or it
 * never asks for the connection.
 */
static void test_nobody_sleeps_at_a_socket_that_is_away(void **state)
{
	int rc;

	so.sk.events = SOCK_EXPORTED;
	assert_true(one_wait(LONG, &rc) < LONG / 2);
	assert_int_equal(rc, 0);
	assert_int_equal(list_empty(&so.sk.watches), true);
}

/* What a call returns that looks, is interrupted before it begins to wait, and waits. */
static int interrupted_wait(bool restart, nsec_t deadline)
{
	SOCK_WAIT(wait);

	fake_handler(SIGUSR1);
	sock_signals.restart += restart;
	sock_wait_begin(&wait, ref(), EPOLLIN, deadline);
	return sock_wait_next(&wait);
}

/* signal(7): the kernel has the signal wait until the call sleeps, or ends it then. */
static void test_a_handler_that_runs_before_the_wait_ends_the_call(void **state)
{
	assert_int_equal(interrupted_wait(false, LONG), -EINTR);
	assert_int_equal(interrupted_wait(false, 0), -EINTR);
	assert_int_equal(interrupted_wait(true, LONG), -EINTR); /* never restarted: a timeout */
}

static void test_a_handler_with_sa_restart_does_not(void **state)
{
	so.sk.events = SOCK_EXPORTED; /* it does not sleep, either */
	assert_int_equal(interrupted_wait(true, 0), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_a_handler_that_runs_before_the_wait_ends_the_call, setup),
	cmocka_unit_test_setup(test_a_handler_with_sa_restart_does_not, setup),
	cmocka_unit_test_setup(test_what_does_not_come_is_waited_for, setup),
	cmocka_unit_test_setup(test_nobody_sleeps_at_a_socket_that_is_away, setup),
};

VMA_TEST_MAIN("wait", tests, NULL, NULL)
