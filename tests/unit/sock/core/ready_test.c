/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/ready.h"

#include "tests/unit/sock/fake_sock.h"

#define ROUNDS 5000
#define LONG (20 * NSEC_PER_SEC) /* longer than any wait */

static struct fake_sock s[4];
static struct waiter w[2];

static int setup(void **state)
{
	(void)state;
	fake_init();
	for (int i = 0; i < 4; i++)
		fake_open(&s[i]);
	waiter_init(&w[0]);
	waiter_init(&w[1]);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		fake_close(&s[i]);
	fake_fini();
	return 0;
}

static void watch(struct watch *watch, struct waiter *waiter, struct fake_sock *fake,
		  uint32_t events)
{
	watch_init(watch, waiter, &fake->sk, events);
	fake_hold();
	watch_add(watch);
	fake_release();
}

static void unwatch(struct watch *watch)
{
	fake_hold();
	watch_remove(watch);
	fake_release();
}

static void test_watches_come_out_in_the_order_of_their_events(void **state)
{
	struct watch a, b, c, *taken;

	watch(&a, &w[0], &s[0], EPOLLIN);
	watch(&b, &w[0], &s[1], EPOLLIN);
	watch(&c, &w[0], &s[2], EPOLLIN);
	fake_set(&s[1], EPOLLIN);
	fake_set(&s[0], EPOLLIN);
	fake_set(&s[1], EPOLLIN); /* it is already queued */
	fake_set(&s[2], EPOLLIN);
	assert_true(waiter_pending(&w[0]));
	taken = waiter_take(&w[0]);
	assert_ptr_equal(taken, &b);
	taken = watch_next(taken);
	assert_ptr_equal(taken, &a);
	taken = watch_next(taken);
	assert_ptr_equal(taken, &c);
	assert_null(watch_next(taken));
	assert_false(waiter_pending(&w[0]));
	assert_null(waiter_take(&w[0]));
	unwatch(&a);
	unwatch(&b);
	unwatch(&c);
	unwatch(&c); /* harmless */
}

static void test_only_events_that_matter_are_notified_and_errors_always(void **state)
{
	struct watch in;

	watch(&in, &w[0], &s[0], EPOLLIN);
	fake_set(&s[0], EPOLLOUT);
	assert_null(waiter_take(&w[0]));
	fake_set(&s[0], EPOLLERR);
	assert_ptr_equal(waiter_take(&w[0]), &in);
	watch_next(&in);
	fake_set(&s[0], EPOLLHUP);
	assert_ptr_equal(waiter_take(&w[0]), &in);
	watch_next(&in);
	unwatch(&in);
}

static void test_the_same_event_again_is_a_new_notification(void **state)
{
	struct watch in;

	watch(&in, &w[0], &s[0], EPOLLIN);
	for (int i = 0; i < 3; i++) {
		fake_set(&s[0], EPOLLIN);
		assert_ptr_equal(waiter_take(&w[0]), &in);
		assert_null(watch_next(&in));
	}
	unwatch(&in);
}

static void test_every_waiter_of_a_socket_is_told(void **state)
{
	struct watch a, b;

	watch(&a, &w[0], &s[0], EPOLLIN);
	watch(&b, &w[1], &s[0], EPOLLIN);
	fake_set(&s[0], EPOLLIN);
	assert_ptr_equal(waiter_take(&w[0]), &a);
	assert_ptr_equal(waiter_take(&w[1]), &b);
	unwatch(&a);
	unwatch(&b);
}

static void test_exclusive_watches_take_turns_among_those_with_users(void **state)
{
	struct watch a, b, all;

	watch(&a, &w[0], &s[0], EPOLLIN | EPOLLEXCLUSIVE);
	watch(&b, &w[1], &s[0], EPOLLIN | EPOLLEXCLUSIVE);
	watch(&all, &w[0], &s[0], EPOLLIN);

	/* No thread waits: every waiter is told. */
	fake_set(&s[0], EPOLLIN);
	waiter_discard(&w[0]);
	assert_ptr_equal(waiter_take(&w[1]), &b);
	watch_next(&b);

	w[0].users = w[1].users = 1;
	fake_set(&s[0], EPOLLIN);
	assert_int_equal(a.queued, WATCH_QUEUED);
	assert_int_equal(all.queued, WATCH_QUEUED);
	assert_int_equal(b.queued, 0);
	waiter_discard(&w[0]);
	fake_set(&s[0], EPOLLIN);
	assert_int_equal(a.queued, 0);
	assert_int_equal(b.queued, WATCH_QUEUED);
	waiter_discard(&w[0]);
	waiter_discard(&w[1]);
	unwatch(&a);
	unwatch(&b);
	unwatch(&all);
}

static void test_a_socket_that_ends_tells_its_watches_once(void **state)
{
	struct watch a, b;

	watch(&a, &w[0], &s[3], EPOLLIN);
	watch(&b, &w[0], &s[3], EPOLLIN);
	fake_set(&s[3], EPOLLIN); /* already queued: it is told nevertheless */
	fake_close(&s[3]);
	assert_true(list_empty(&s[3].sk.watches));
	assert_ptr_equal(waiter_take(&w[0]), &b);
	assert_ptr_equal(watch_next(&b), &a);
	assert_null(watch_next(&a));
	assert_true(a.gone && b.gone);
	fake_open(&s[3]);
}

static void test_the_last_waiter_is_told_first(void **state)
{
	struct watch a, b;

	watch(&a, &w[0], &s[3], EPOLLIN);
	watch(&b, &w[0], &s[3], EPOLLIN);
	fake_set(&s[3], EPOLLIN);
	assert_ptr_equal(waiter_take(&w[0]), &b);
	assert_ptr_equal(watch_next(&b), &a);
	assert_null(watch_next(&a));
	fake_close(&s[3]);
	waiter_discard(&w[0]);
	fake_open(&s[3]);
}

static nsec_t sleep_for(struct fake_nap *nap, nsec_t time, int *rc)
{
	struct pollfd fds[1];
	nsec_t start = fake_now();

	*rc = fake_sleep(nap, fds, 1, clock_now() + time);
	return fake_now() - start;
}

static void test_sleep_ends_at_its_time(void **state)
{
	struct fake_nap nap;
	nsec_t took;
	int rc;

	fake_block(&nap, &w[0]);
	took = sleep_for(&nap, 20 * NSEC_PER_MSEC, &rc);
	assert_int_equal(rc, 0);
	assert_true(took >= 19 * NSEC_PER_MSEC);
	assert_int_equal(sleep_place_used(&w[0].sleepers), 0);
}

static void test_an_event_between_prepare_and_sleep_is_not_slept_through(void **state)
{
	struct fake_nap nap;
	struct watch in;
	nsec_t took;
	int rc;

	watch(&in, &w[0], &s[0], EPOLLIN);
	fake_block(&nap, &w[0]);
	fake_set(&s[0], EPOLLIN);
	took = sleep_for(&nap, LONG, &rc);
	assert_int_equal(rc, 0);
	assert_true(took < LONG / 2);
	assert_ptr_equal(waiter_take(&w[0]), &in);
	unwatch(&in);
}

static void test_a_waiter_that_does_not_block_is_not_signalled(void **state)
{
	struct fake_nap nap;
	struct watch in;

	fake_block(&nap, &w[0]); /* clears the earlier wake-up */
	sleep_end(&nap.sleep);
	watch(&in, &w[0], &s[0], EPOLLIN);
	sleep_begin(&nap.sleep);
	sleep_enter(&nap.sleep, &nap.at, &w[0].sleepers, false);
	fake_set(&s[0], EPOLLIN);
	assert_int_equal(nap.sleep.wakeup->signalled, 0);
	watch_next(waiter_take(&w[0]));
	assert_true(sleep_listen(&nap.sleep));
	sleep_end(&nap.sleep);
	fake_set(&s[0], EPOLLIN);
	assert_int_equal(nap.sleep.wakeup->signalled, 0);
	waiter_discard(&w[0]);
	unwatch(&in);
}

static void test_sleep_counts_the_other_descriptors(void **state)
{
	struct fake_nap nap;
	struct pollfd fds[3];
	int rc;

	fake_kernel_send(s[0].fd);
	fds[1] = (struct pollfd){.fd = s[0].fd, .events = POLLIN};
	fds[2] = (struct pollfd){.fd = s[1].fd, .events = POLLIN};
	fake_block(&nap, &w[0]);
	waiter_wake(&w[0]);
	rc = fake_sleep(&nap, fds, 3, NSEC_NEVER);
	assert_int_equal(rc, 1);
	assert_int_equal(fds[1].revents, POLLIN);
	assert_int_equal(fds[2].revents, 0);
	fake_kernel_recv(s[0].fd);
}

static void test_a_signal_ends_the_sleep(void **state)
{
	struct timespec soon = {0, 10 * NSEC_PER_MSEC};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	/* again and again: on a busy machine the first ones come before the sleep */
	struct itimerspec when = {.it_value = soon, .it_interval = soon};
	struct fake_nap nap;
	timer_t timer;
	int rc;

	fake_catch(SIGUSR1);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	timer_settime(timer, 0, &when, NULL);
	fake_block(&nap, &w[0]);
	sleep_for(&nap, LONG, &rc);
	assert_int_equal(rc, -EINTR);
	assert_int_equal(sleep_place_used(&w[0].sleepers), 0);
	timer_delete(timer);
}

static void test_a_program_that_closes_everything_does_not_end_waiting(void **state)
{
	struct fake_nap nap;
	struct watch in;
	nsec_t took;
	int rc, old;

	fake_block(&nap, &w[0]);
	old = nap.sleep.wakeup->fd;
	sleep_end(&nap.sleep);
	close(old);
	fake_block(&nap, &w[0]);
	took = sleep_for(&nap, LONG, &rc); /* notices */
	assert_int_equal(rc, 0);
	assert_true(took < LONG / 2);
	watch(&in, &w[0], &s[0], EPOLLIN);
	fake_block(&nap, &w[0]);
	fake_set(&s[0], EPOLLIN);
	took = sleep_for(&nap, LONG, &rc);
	assert_int_equal(rc, 0);
	assert_true(took < LONG / 2);
	waiter_discard(&w[0]);
	unwatch(&in);
}

static void *get_self(void *arg)
{
	struct waiter *self = waiter_self();
	struct fake_nap nap;

	assert_ptr_equal(self, waiter_self());
	fake_block(&nap, self);
	*(int *)arg = nap.sleep.wakeup->fd;
	sleep_end(&nap.sleep);
	return self;
}

static void test_each_thread_has_its_own_waiter_and_frees_it_at_exit(void **state)
{
	struct waiter *mine = waiter_self();
	pthread_t thread;
	void *theirs;
	int fd;

	assert_int_equal(pthread_create(&thread, NULL, get_self, &fd), 0);
	pthread_join(thread, &theirs);
	assert_ptr_not_equal(theirs, mine);
	assert_int_equal(fcntl(fd, F_GETFD), -1); /* closed */
}

static void end_sleep(void *arg)
{
	sleep_end(arg);
}

static void *sleep_to_be_cancelled(void *arg)
{
	struct fake_nap nap;
	struct pollfd fds[1];

	fake_block(&nap, arg);
	pthread_cleanup_push(end_sleep, &nap.sleep);
	sleep_now(&nap.sleep, fds, 1, NSEC_NEVER, NULL);
	pthread_cleanup_pop(1);
	return NULL;
}

static void test_a_thread_can_be_cancelled_while_it_sleeps(void **state)
{
	pthread_t thread;
	void *result;

	for (int i = 0; i < 20; i++) {
		assert_int_equal(pthread_create(&thread, NULL, sleep_to_be_cancelled, &w[0]), 0);
		while (!sleep_place_used(&w[0].sleepers))
			sched_yield();
		fake_pause(i * 100 * NSEC_PER_USEC);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		assert_int_equal(sleep_place_used(&w[0].sleepers), 0);
	}
}

/* A sleeps until B tells it, and B until A does. */
struct ping_pong {
	struct waiter *mine;
	struct fake_sock *from, *to;
	bool first;
};

static void *play(void *arg)
{
	struct ping_pong *p = arg;
	struct watch in;

	watch(&in, p->mine, p->from, EPOLLIN);
	for (int i = 0; i < ROUNDS; i++) {
		if (p->first)
			fake_set(p->to, EPOLLIN);
		while (!(sock_events(&p->from->sk) & EPOLLIN)) {
			assert_int_equal(fake_sleep_at(p->mine, NSEC_NEVER), 0);
			waiter_discard(p->mine);
		}
		fake_clear(p->from, EPOLLIN);
		if (!p->first)
			fake_set(p->to, EPOLLIN);
	}
	unwatch(&in);
	waiter_discard(p->mine);
	return NULL;
}

static void test_no_wake_up_is_lost_between_two_that_sleep(void **state)
{
	struct ping_pong a = {&w[0], &s[0], &s[1], true}, b = {&w[1], &s[1], &s[0], false};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, play, &b), 0);
	play(&a);
	pthread_join(thread, NULL);
}

static void test_a_forked_child_has_an_eventfd_of_its_own(void **state)
{
	struct fake_nap nap;
	int before, rc;

	fake_block(&nap, &w[0]);
	before = nap.sleep.wakeup->fd;
	sleep_end(&nap.sleep);
	ready_fork_child();
	fake_block(&nap, &w[0]);
	assert_int_not_equal(nap.sleep.wakeup->fd, before);
	waiter_wake(&w[0]);
	sleep_for(&nap, LONG, &rc);
	assert_int_equal(rc, 0);
	close(before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_watches_come_out_in_the_order_of_their_events),
	TEST(test_only_events_that_matter_are_notified_and_errors_always),
	TEST(test_the_same_event_again_is_a_new_notification),
	TEST(test_every_waiter_of_a_socket_is_told),
	TEST(test_exclusive_watches_take_turns_among_those_with_users),
	TEST(test_a_socket_that_ends_tells_its_watches_once),
	TEST(test_the_last_waiter_is_told_first),
	TEST(test_sleep_ends_at_its_time),
	TEST(test_an_event_between_prepare_and_sleep_is_not_slept_through),
	TEST(test_a_waiter_that_does_not_block_is_not_signalled),
	TEST(test_sleep_counts_the_other_descriptors),
	TEST(test_a_signal_ends_the_sleep),
	TEST(test_a_program_that_closes_everything_does_not_end_waiting),
	TEST(test_each_thread_has_its_own_waiter_and_frees_it_at_exit),
	TEST(test_a_thread_can_be_cancelled_while_it_sleeps),
	TEST(test_no_wake_up_is_lost_between_two_that_sleep),
	TEST(test_a_forked_child_has_an_eventfd_of_its_own),
};

VMA_TEST_MAIN("ready", tests, NULL, NULL)
