/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A signal handler leaves a call that waits by siglongjmp(), at each of its instructions at which handlers
 * are not deferred: no thread is counted in the socket afterwards.
 */
#include <setjmp.h>

#include "base/busy.h"
#include "base/param.h"
#include "ring/rings.h"
#include "sock/core/inet_sock.h"
#include "sock/wait/epoll_internal.h"
#include "sock/wait/wait.h"

#include "tests/unit/sock/fake_sock.h"

#define TRAP_FLAG 0x100ul /* of x86-64: SIGTRAP after each instruction */
#define RESULT 14
#define LONGEST 20000 /* instructions */

static struct inet_sock so;
static sigjmp_buf out;
static unsigned left; /* instructions until the handler jumps */
static unsigned tries;

uint64_t sock_shared_id;

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

static void set_trap_flag(bool on)
{
	uint64_t flags = __builtin_ia32_readeflags_u64();

	__builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG : flags & ~TRAP_FLAG);
}

static void on_trap(int sig)
{
	(void)sig;
	if (!busy_is() && left-- == 0)
		siglongjmp(out, 1);
}

/* The first try finds nothing, the second one something. */
static bool try_twice(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	(void)arg;
	(void)ring;
	(void)wait;
	*n = ++tries == 1 ? SOCK_TRY_ASIDE : RESULT;
	return *n == RESULT;
}

/* What comes before the wait is not stepped through. */
static ssize_t step_from_here(void *arg, struct sock_wait *wait)
{
	(void)arg;
	(void)wait;
	set_trap_flag(true);
	return SOCK_TRY_WAIT;
}

/* A frame of its own: siglongjmp() leaves it, and runs its cleanup records. */
static __attribute__((noinline)) ssize_t wait_once(void)
{
	struct sock_call call = {
		.ref = {&so.sk, so.sk.gen}, .before = sock_signals, .events = EPOLLIN};

	call.before.handled--; /* it does not sleep */
	return sock_wait_loop(call, SOCK_WAIT_COLD, try_twice, step_from_here, NULL);
}

/* False: the call has ended before. */
static bool is_left_after(unsigned instructions)
{
	ssize_t n;

	left = instructions;
	tries = 0;
	if (sigsetjmp(out, 1))
		return true;
	n = wait_once();
	set_trap_flag(false);
	assert_int_equal(n, RESULT);
	return false;
}

static void test_no_waiter_is_left_behind(void **state)
{
	struct sigaction act = {.sa_handler = on_trap}, old;
	unsigned at = 0;

	(void)state;
	clock_init();
	rings_init(NULL);
	so.sk.type = SOCK_TYPE_TCP;
	so.sk.gen = 1;
	so.sk.home = rings_nowhere();
	so.id = 1;
	list_init(&so.sk.watches);
	sigaction(SIGTRAP, &act, &old);
	for (bool is_left = true; is_left && at < LONGEST; at++) {
		is_left = is_left_after(at);
		if (so.sk.waiters)
			fail_msg("a waiter is left behind at instruction %u", at);
		assert_null(hold_current);
	}
	sigaction(SIGTRAP, &old, NULL);
	assert_in_range(at, 50, LONGEST - 1);
}

static __attribute__((noinline)) int look_once(struct epoll *ep)
{
	struct epoll_event event;
	int n;

	set_trap_flag(true);
	n = epoll_wait_set(ep, &event, 1, 0, NULL);
	set_trap_flag(false);
	return n;
}

static bool look_is_left_after(struct epoll *ep, unsigned instructions)
{
	left = instructions;
	if (sigsetjmp(out, 1))
		return true;
	assert_int_equal(look_once(ep), 0);
	return false;
}

/* Else the set was never freed, and got events of EPOLLEXCLUSIVE in which no thread is interested. */
static void test_no_user_of_a_set_is_left_behind(void **state)
{
	struct sigaction act = {.sa_handler = on_trap}, old;
	struct epoll_event event = {.events = EPOLLIN};
	static struct fake_sock s;
	struct epoll *ep;
	unsigned at = 0;

	(void)state;
	fake_init();
	fake_open(&s);
	ep = epoll_create_set(epoll_create1(EPOLL_CLOEXEC));
	assert_int_equal(epoll_control(ep, EPOLL_CTL_ADD, s.fd, fake_ref(&s), &event), 0);
	sigaction(SIGTRAP, &act, &old);
	for (bool is_left = true; is_left && at < LONGEST; at++) {
		is_left = look_is_left_after(ep, at);
		if (ep->waiter.users)
			fail_msg("a user is left behind at instruction %u", at);
	}
	sigaction(SIGTRAP, &old, NULL);
	assert_in_range(at, 50, LONGEST - 1);
	close(ep->epfd);
	epoll_destroy_set(ep);
	fake_close(&s);
	fake_fini();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_no_user_of_a_set_is_left_behind),
	cmocka_unit_test(test_no_waiter_is_left_behind),
};

VMA_TEST_MAIN("wait_jump", tests, NULL, NULL)
