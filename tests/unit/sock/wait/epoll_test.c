/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/epoll.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/param.h"
#include "sock/core/control.h"
#include "tests/unit/sock/fake_sock.h"

#define N 4
#define MSEC NSEC_PER_MSEC
#define LONG (20 * NSEC_PER_SEC) /* longer than any wait */

static struct fake_sock s[N];
static int epfd, other_epfd;
static struct epoll *ep, *other;

static int setup(void **state)
{
	(void)state;
	fake_init();
	for (int i = 0; i < N; i++)
		fake_open(&s[i]);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	ep = epoll_create_set(epfd);
	other_epfd = epoll_create1(EPOLL_CLOEXEC);
	other = epoll_create_set(other_epfd);
	params.select_poll = 100;
	params.select_skip_os = 4;
	params.select_poll_os_ratio = 10;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < N; i++)
		fake_close(&s[i]);
	/*
	 * The set that was created last is destroyed first: ep gets its memory, and other the
	 * next.
	 */
	epoll_destroy_set(other);
	close(other_epfd);
	epoll_destroy_set(ep);
	close(epfd);
	fake_fini();
	return 0;
}

static int ctl_set(struct epoll *set, int op, struct fake_sock *fake, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = fake};

	return epoll_control(set, op, fake->fd, fake_ref(fake), &event);
}

static int ctl(int op, struct fake_sock *fake, uint32_t events)
{
	return ctl_set(ep, op, fake, events);
}

static void add(struct fake_sock *fake, uint32_t events)
{
	assert_int_equal(ctl(EPOLL_CTL_ADD, fake, events), 0);
}

/* A kernel descriptor in the set, which the program added. */
static void add_kernel(int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u64 = 4711};

	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event), 0);
	epoll_note_kernel_fd(ep, 1);
}

static struct epoll_event got[8];

static int look(void)
{
	return epoll_wait_set(ep, got, 8, 0, NULL);
}

/* Another thread ends the wait long before its timeout. */
static int wait_for_event(void)
{
	nsec_t began = fake_now();
	int n = epoll_wait_set(ep, got, 8, LONG, NULL);

	assert_true(fake_now() - began < LONG / 2);
	return n;
}

static void expect(struct fake_sock *fake, uint32_t events)
{
	assert_int_equal(look(), 1);
	assert_ptr_equal(got[0].data.ptr, fake);
	assert_int_equal(got[0].events, events);
}

static void expect_nothing(void)
{
	assert_int_equal(look(), 0);
}

/* ---- what is reported ------------------------------------------------------------ */

static void test_level_reports_as_long_as_it_is_true(void **state)
{
	add(&s[0], EPOLLIN);
	expect_nothing();
	fake_set(&s[0], EPOLLIN | EPOLLOUT);
	expect(&s[0], EPOLLIN);
	expect(&s[0], EPOLLIN);
	fake_clear(&s[0], EPOLLIN);
	expect_nothing();
	fake_set(&s[0], EPOLLIN);
	expect(&s[0], EPOLLIN);
}

static void test_edge_reports_once_per_event(void **state)
{
	add(&s[0], EPOLLIN | EPOLLOUT | EPOLLET);
	fake_set(&s[0], EPOLLIN);
	expect(&s[0], EPOLLIN);
	expect_nothing();
	fake_set(&s[0], EPOLLIN); /* more data, though it was readable */
	expect(&s[0], EPOLLIN);
	expect_nothing();
	fake_set(&s[0], EPOLLOUT); /* everything that is true is reported with it */
	expect(&s[0], EPOLLIN | EPOLLOUT);
	fake_set(&s[0], EPOLLIN);
	fake_clear(&s[0], EPOLLIN | EPOLLOUT); /* another thread took it */
	expect_nothing();
}

static void test_oneshot_reports_once_until_modified(void **state)
{
	add(&s[0], EPOLLIN | EPOLLONESHOT);
	fake_set(&s[0], EPOLLIN);
	expect(&s[0], EPOLLIN);
	expect_nothing();
	fake_set(&s[0], EPOLLIN);
	expect_nothing();
	assert_int_equal(ctl(EPOLL_CTL_MOD, &s[0], EPOLLIN | EPOLLONESHOT), 0);
	expect(&s[0], EPOLLIN);
	expect_nothing();
}

static void test_new_interest_in_what_is_ready_is_reported_at_once(void **state)
{
	fake_set(&s[0], EPOLLIN);
	fake_set(&s[1], EPOLLIN);
	add(&s[0], EPOLLIN | EPOLLET);
	expect(&s[0], EPOLLIN);
	expect_nothing();
	assert_int_equal(ctl(EPOLL_CTL_MOD, &s[0], EPOLLIN | EPOLLET), 0);
	expect(&s[0], EPOLLIN);
	assert_int_equal(ctl(EPOLL_CTL_MOD, &s[0], 0), 0);
	expect_nothing();
	add(&s[1], EPOLLIN);
	expect(&s[1], EPOLLIN);
}

static void test_errors_and_hangup_need_not_be_asked_for(void **state)
{
	add(&s[0], 0);
	fake_set(&s[0], EPOLLIN | EPOLLRDHUP);
	expect_nothing();
	fake_set(&s[0], EPOLLERR);
	expect(&s[0], EPOLLERR);
	fake_set(&s[0], EPOLLHUP);
	expect(&s[0], EPOLLERR | EPOLLHUP);
}

static void test_rdhup_and_aliases_are_reported_when_asked_for(void **state)
{
	add(&s[0], EPOLLRDNORM | EPOLLRDHUP | EPOLLET);
	fake_set(&s[0], EPOLLIN);
	expect(&s[0], EPOLLRDNORM);
	fake_set(&s[0], EPOLLRDHUP);
	expect(&s[0], EPOLLRDNORM | EPOLLRDHUP);
	add(&s[1], EPOLLWRNORM | EPOLLWRBAND);
	fake_set(&s[1], EPOLLOUT);
	expect(&s[1], EPOLLWRNORM | EPOLLWRBAND);
}

static void test_with_little_room_every_entry_gets_its_turn(void **state)
{
	unsigned seen = 0;

	for (int i = 0; i < N; i++) {
		add(&s[i], EPOLLIN);
		fake_set(&s[i], EPOLLIN);
	}
	for (int i = 0; i < N; i++) {
		assert_int_equal(epoll_wait_set(ep, got, 1, 0, NULL), 1);
		seen |= 1u << ((struct fake_sock *)got[0].data.ptr - s);
	}
	assert_int_equal(seen, (1 << N) - 1);
	assert_int_equal(look(), N);
}

static void test_a_socket_in_two_sets_is_reported_in_both(void **state)
{
	add(&s[0], EPOLLIN | EPOLLET);
	assert_int_equal(ctl_set(other, EPOLL_CTL_ADD, &s[0], EPOLLIN), 0);
	fake_set(&s[0], EPOLLIN);
	expect(&s[0], EPOLLIN);
	expect_nothing();
	assert_int_equal(epoll_wait_set(other, got, 8, 0, NULL), 1);
	assert_int_equal(ctl_set(other, EPOLL_CTL_DEL, &s[0], 0), 0);
	fake_set(&s[0], EPOLLIN);
	assert_int_equal(epoll_wait_set(other, got, 8, 0, NULL), 0);
	expect(&s[0], EPOLLIN);
}

static void test_two_descriptors_of_one_socket_are_two_entries(void **state)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 1};
	int copy = dup(s[0].fd);

	add(&s[0], EPOLLIN);
	assert_int_equal(epoll_control(ep, EPOLL_CTL_ADD, copy, fake_ref(&s[0]), &event), 0);
	fake_set(&s[0], EPOLLIN);
	assert_int_equal(look(), 2);
	close(copy);
}

/* ---- epoll_ctl() ------------------------------------------------------------------- */

static void test_control_refuses_as_the_kernel_does(void **state)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct sock_ref ref = fake_ref(&s[0]);
	int fd = s[0].fd;

	assert_int_equal(ctl(EPOLL_CTL_MOD, &s[0], EPOLLIN), -ENOENT);
	assert_int_equal(ctl(EPOLL_CTL_DEL, &s[0], 0), -ENOENT);
	assert_int_equal(ctl(77, &s[0], 0), -EINVAL);
	add(&s[0], EPOLLIN);
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[0], EPOLLOUT), -EEXIST);
	assert_int_equal(ctl(EPOLL_CTL_MOD, &s[0], EPOLLIN | EPOLLEXCLUSIVE), -EINVAL);
	assert_int_equal(epoll_control(ep, EPOLL_CTL_DEL, fd, ref, NULL), 0);
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[0], EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT),
			 -EINVAL);
	add(&s[0], EPOLLIN | EPOLLEXCLUSIVE);
	assert_int_equal(ctl(EPOLL_CTL_MOD, &s[0], EPOLLIN), -EINVAL);
	assert_int_equal(epoll_wait_set(ep, got, 0, 0, NULL), -EINVAL);
	assert_int_equal(epoll_wait_set(ep, got, -1, 0, NULL), -EINVAL);
	fake_hold();
	assert_int_equal(epoll_control(ep, EPOLL_CTL_ADD, fd, ref, &event), -EBUSY);
	assert_int_equal(epoll_wait_set(ep, got, 8, 0, NULL), -EINTR);
	fake_release();
}

/* The internal thread gives it to the kernel while a thread of the program is in the call. */
static void test_control_of_a_socket_that_leaves_is_for_the_kernel(void **state)
{
	static const int ops[] = {EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL};
	struct epoll_event event = {.events = EPOLLIN};
	struct sock_ref ref = fake_ref(&s[0]);
	int fd = s[0].fd;

	s[0].sk.left_gen = s[0].sk.gen; /* its entries are in the kernel's sets by then */
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(epoll_control(ep, ops[i], fd, ref, &event), SOCK_KERNEL);
	assert_true(epoll_is_plain(ep));
	assert_true(list_empty(&s[0].sk.watches));
	fake_end(&s[0]);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(epoll_control(ep, ops[i], fd, ref, &event), SOCK_KERNEL);
	assert_true(epoll_is_plain(ep));
	close(fd);
	fake_open(&s[0]);
	assert_int_equal(ctl(EPOLL_CTL_MOD, &s[0], EPOLLIN), -ENOENT);
}

static void test_deleting_what_is_in_the_queue_leaves_nothing(void **state)
{
	add(&s[0], EPOLLIN);
	expect_nothing();
	fake_set(&s[0], EPOLLIN);
	assert_int_equal(ctl(EPOLL_CTL_DEL, &s[0], 0), 0);
	expect_nothing();
	assert_true(epoll_is_plain(ep));
	add(&s[0], EPOLLIN);
	expect(&s[0], EPOLLIN);
}

static void test_many_entries_are_found_again(void **state)
{
	struct epoll_event event = {.events = EPOLLIN};

	for (int fd = 1000; fd < 1200; fd++)
		assert_int_equal(epoll_control(ep, EPOLL_CTL_ADD, fd, fake_ref(&s[0]), &event), 0);
	for (int fd = 1000; fd < 1200; fd++)
		assert_int_equal(epoll_control(ep, EPOLL_CTL_MOD, fd, fake_ref(&s[0]), &event), 0);
	for (int fd = 1000; fd < 1200; fd += 2)
		assert_int_equal(epoll_control(ep, EPOLL_CTL_DEL, fd, fake_ref(&s[0]), NULL), 0);
	fake_set(&s[0], EPOLLIN);
	assert_int_equal(look(), 8);
}

/* ---- sockets that end ---------------------------------------------------------------- */

static void test_a_closed_socket_leaves_the_set(void **state)
{
	add(&s[0], EPOLLIN);
	fake_set(&s[0], EPOLLIN);
	fake_close(&s[0]);
	expect_nothing();
	assert_true(epoll_is_plain(ep));
	fake_open(&s[0]);
}

static void test_its_number_can_be_added_again(void **state)
{
	int fd = s[0].fd;

	add(&s[0], EPOLLIN);
	fake_set(&s[0], EPOLLIN);
	look(); /* is on the ready list */
	fake_close(&s[0]);
	fake_open(&s[0]);
	assert_int_equal(s[0].fd, fd);
	add(&s[0], EPOLLIN);
	expect_nothing();
	fake_set(&s[0], EPOLLIN);
	expect(&s[0], EPOLLIN);
}

static void test_a_set_is_destroyed_with_everything_in_it(void **state)
{
	add(&s[0], EPOLLIN);
	add(&s[1], EPOLLIN);
	fake_set(&s[1], EPOLLIN);
	epoll_destroy_set(ep);
	assert_true(list_empty(&s[0].sk.watches));
	ep = epoll_create_set(epfd); /* probably the same memory */
	assert_true(epoll_is_plain(ep));
	expect_nothing();
	add(&s[0], EPOLLIN);
	fake_set(&s[0], EPOLLIN);
	expect(&s[0], EPOLLIN);
}

static void test_a_socket_that_leaves_becomes_the_kernels_entry(void **state)
{
	struct epoll_event event;

	s[0].twin_matters = true;
	add(&s[0], EPOLLIN);
	assert_true(control_lock());
	epoll_sock_left(&s[0].sk);
	control_unlock();
	assert_true(list_empty(&s[0].sk.watches));
	assert_true(epoll_is_plain(ep));
	fake_kernel_send(s[0].fd);
	assert_int_equal(epoll_wait(epfd, &event, 1, 1000), 1);
	assert_ptr_equal(event.data.ptr, &s[0]);
	assert_int_equal(event.events, EPOLLIN);
	expect(&s[0], EPOLLIN);
}

/* ---- the kernel's part ----------------------------------------------------------------- */

static void test_kernel_descriptors_are_reported_with_their_data(void **state)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	add_kernel(fds[0], EPOLLIN);
	add(&s[0], EPOLLIN);
	expect_nothing();
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(look(), 1);
	assert_int_equal(got[0].data.u64, 4711);
	/* Both are ready: neither is left out for long. */
	fake_set(&s[0], EPOLLIN);
	for (int i = 0, ours = 0, kernels = 0; !ours || !kernels; i++) {
		int n = look();

		assert_true(i < 10 && n > 0);
		for (int k = 0; k < n; k++) {
			ours += got[k].data.ptr == &s[0];
			kernels += got[k].data.u64 == 4711;
		}
	}
	close(fds[0]);
	close(fds[1]);
}

static void test_what_the_kernel_receives_for_a_socket_is_reported_as_its_own(void **state)
{
	s[0].twin_matters = s[1].twin_matters = s[2].twin_matters = true;
	add(&s[0], EPOLLIN);
	add(&s[1], EPOLLIN | EPOLLET);
	add(&s[2], EPOLLIN | EPOLLONESHOT);

	fake_kernel_send(s[0].fd);
	expect(&s[0], EPOLLIN);
	expect(&s[0], EPOLLIN);
	fake_kernel_recv(s[0].fd);
	expect_nothing();

	fake_kernel_send(s[1].fd);
	expect(&s[1], EPOLLIN);
	expect_nothing();
	fake_kernel_send(s[1].fd);
	expect(&s[1], EPOLLIN);
	fake_kernel_recv(s[1].fd);

	fake_kernel_send(s[2].fd);
	expect(&s[2], EPOLLIN);
	expect_nothing();
	assert_int_equal(ctl(EPOLL_CTL_MOD, &s[2], EPOLLIN | EPOLLONESHOT), 0);
	expect(&s[2], EPOLLIN);
}

static void test_a_twin_that_begins_to_matter_is_noticed(void **state)
{
	add(&s[0], EPOLLIN);
	fake_kernel_send(s[0].fd);
	expect_nothing();
	s[0].twin_matters = true;
	fake_generation++;
	assert_int_equal(wait_for_event(), 1);
	assert_ptr_equal(got[0].data.ptr, &s[0]);
}

/* A child has the file of a closed socket open, and data arrives there. */
static void test_a_stray_twin_does_not_keep_us_awake(void **state)
{
	unsigned polls;
	int copy = dup(s[0].fd);
	nsec_t start;

	s[0].twin_matters = s[1].twin_matters = true;
	add(&s[0], EPOLLIN);
	add(&s[1], EPOLLIN);
	fake_close(&s[0]);
	fake_kernel_send(copy);
	polls = fake_polls;
	start = fake_now();
	assert_int_equal(epoll_wait_set(ep, got, 8, 50 * MSEC, NULL), 0);
	assert_true(fake_now() - start >= 50 * MSEC);
	params.select_poll = 0;
	polls = fake_polls;
	assert_int_equal(epoll_wait_set(ep, got, 8, 50 * MSEC, NULL), 0);
	assert_true(fake_polls - polls < 10);
	fake_kernel_send(s[1].fd);
	expect(&s[1], EPOLLIN);
	close(copy);
	fake_open(&s[0]);
}

/* ---- time -------------------------------------------------------------------------------- */

static void wait_exactly(nsec_t timeout)
{
	nsec_t start = fake_now(), took;

	assert_int_equal(epoll_wait_set(ep, got, 8, timeout, NULL), 0);
	took = fake_now() - start;
	assert_true(took >= timeout);
	assert_true(took < timeout + 500 * MSEC);
}

static void test_timeouts_are_never_short_polling_or_asleep(void **state)
{
	add(&s[0], EPOLLIN);
	for (int poll = -1; poll < 2; poll++) {
		params.select_poll = poll * 1000;
		wait_exactly(0);
		wait_exactly(100 * NSEC_PER_USEC);
		wait_exactly(3 * MSEC);
		wait_exactly(30 * MSEC);
	}
}

static void test_a_plain_set_waits_in_the_kernel(void **state)
{
	int fds[2];

	wait_exactly(0);
	wait_exactly(10 * MSEC);
	wait_exactly(NSEC_PER_USEC * 1500); /* not a number of milliseconds */
	assert_int_equal(pipe(fds), 0);
	add_kernel(fds[0], EPOLLIN);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(epoll_wait_set(ep, got, 8, NSEC_NEVER, NULL), 1);
	assert_int_equal(got[0].data.u64, 4711);
	close(fds[0]);
	close(fds[1]);
}

/* How an event reaches a wait: each row while it polls and while it sleeps. */
static void close_set(void *arg)
{
	epoll_destroy_set(arg);
}

static void add_ready(void *arg)
{
	fake_set(arg, EPOLLIN);
	add(arg, EPOLLIN);
}

static void kernel_send(void *arg)
{
	fake_kernel_send(((struct fake_sock *)arg)->fd);
}

static void test_events_reach_a_wait_polling_and_asleep(void **state)
{
	static void (*const ways[])(void *) = {fake_set_in, fake_send_in, kernel_send};
	struct fake_later later;

	for (int poll = -1; poll < 1; poll++) {
		params.select_poll = poll;
		for (int i = 0; i < 3; i++) {
			s[i].twin_matters = true;
			add(&s[i], EPOLLIN);
			fake_later_start(&later, 5 * MSEC, ways[i], &s[i]);
			assert_int_equal(wait_for_event(), 1);
			assert_ptr_equal(got[0].data.ptr, &s[i]);
			assert_int_equal(got[0].events, EPOLLIN);
			fake_later_join(&later);
			fake_clear(&s[i], EPOLLIN);
			assert_int_equal(ctl(EPOLL_CTL_DEL, &s[i], 0), 0);
		}
		fake_kernel_recv(s[2].fd);
	}
}

static void set_first(void)
{
	fake_set(&s[0], EPOLLIN);
}

static void test_an_event_is_not_slept_through_whenever_it_comes(void **state)
{
	bool too_late = false;

	params.select_poll = 0;
	add(&s[0], EPOLLIN);
	fake_hook = set_first;
	for (unsigned when = 1; !too_late; when++) {
		nsec_t began = fake_now();

		fake_hook_in = when;
		epoll_wait_set(ep, got, 8, NSEC_PER_SEC, NULL);
		too_late = fake_hook_in != 0;
		assert_true(too_late || fake_now() - began < NSEC_PER_SEC);
		assert_true(!too_late || when > 2);
		fake_hook_in = 0;
		fake_clear(&s[0], EPOLLIN);
	}
}

struct one {
	pthread_t thread;
	int n;
	nsec_t took;
};

static void *wait_for_one(void *arg)
{
	struct one *one = arg;
	struct epoll_event event;
	cpu_set_t cpu;

	/* In sequence: when the second thread checks, the first one is done. */
	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	one->took = fake_now();
	one->n = epoll_wait_set(ep, &event, 1, LONG, NULL);
	one->took = fake_now() - one->took;
	return NULL;
}

static void test_two_events_wake_two_sleepers(void **state)
{
	params.select_poll = 0;
	add(&s[0], EPOLLIN | EPOLLET);
	add(&s[1], EPOLLIN | EPOLLET);
	for (int i = 0; i < 200; i++) {
		struct one one[2];

		for (int k = 0; k < 2; k++)
			pthread_create(&one[k].thread, NULL, wait_for_one, &one[k]);
		while (sleep_place_used(&fake_ring.sleepers) < 2)
			fake_pause(10 * NSEC_PER_USEC);
		fake_pause(50 * NSEC_PER_USEC);
		fake_hold();
		fake_event(&s[0], EPOLLIN);
		fake_event(&s[1], EPOLLIN);
		fake_release();
		for (int k = 0; k < 2; k++) {
			pthread_join(one[k].thread, NULL);
			assert_int_equal(one[k].n, 1);
			assert_true(one[k].took < LONG / 2);
		}
	}
}

static void test_the_first_socket_reaches_a_wait_in_the_kernel(void **state)
{
	struct fake_later later;

	fake_later_start(&later, 10 * MSEC, add_ready, &s[0]);
	assert_int_equal(wait_for_event(), 1);
	assert_ptr_equal(got[0].data.ptr, &s[0]);
	fake_later_join(&later);
	/* It leaves no trace of how it arrived. */
	fake_clear(&s[0], EPOLLIN);
	params.select_skip_os = 1;
	expect_nothing();
	assert_int_equal(epoll_wait(epfd, got, 8, 0), 0);
}

static void test_a_socket_added_during_a_sleep_is_waited_for(void **state)
{
	struct fake_later later;

	add(&s[1], EPOLLIN);
	params.select_poll = 0;
	fake_later_start(&later, 10 * MSEC, add_ready, &s[0]);
	assert_int_equal(wait_for_event(), 1);
	assert_ptr_equal(got[0].data.ptr, &s[0]);
	fake_later_join(&later);
}

static void test_a_set_closed_during_a_wait_ends_it(void **state)
{
	struct fake_later later;

	for (int poll = -1; poll < 1; poll++) {
		params.select_poll = poll;
		add(&s[0], EPOLLIN);
		fake_later_start(&later, 10 * MSEC, close_set, ep);
		assert_int_equal(wait_for_event(), -EBADF);
		fake_later_join(&later);
		ep = epoll_create_set(epfd);
	}
}

static void test_a_sleep_uses_no_cpu(void **state)
{
	unsigned polls;

	add(&s[0], EPOLLIN);
	params.select_poll = 0;
	polls = fake_polls;
	wait_exactly(50 * MSEC);
	assert_true(fake_polls - polls < 10);
}

/* ---- signals --------------------------------------------------------------------------------- */

static int wait_interrupted(const sigset_t *mask, nsec_t timeout)
{
	struct fake_interrupter interrupter;
	int rc;

	fake_interrupt_start(&interrupter);
	rc = epoll_wait_set(ep, got, 8, timeout, mask);
	fake_interrupt_stop(&interrupter);
	return rc;
}

static void test_a_handler_ends_the_wait_polling_and_asleep(void **state)
{
	add(&s[0], EPOLLIN);
	for (int poll = -1; poll < 1; poll++) {
		params.select_poll = poll;
		fake_catch(SIGUSR1);
		assert_int_equal(wait_interrupted(NULL, LONG), -EINTR);
		assert_int_equal(fake_signals, 1);
	}
}

static void handle_one(void)
{
	fake_handler(SIGUSR1);
}

/* Also in the steps between the last look for signals and the sleep. */
static void test_a_handler_at_any_step_of_a_wait_ends_it(void **state)
{
	bool too_late = false;

	params.select_poll = 0;
	add(&s[0], EPOLLIN);
	fake_hook = handle_one;
	for (unsigned when = 1; !too_late; when++) {
		int rc;

		fake_hook_in = when;
		rc = epoll_wait_set(ep, got, 8, NSEC_PER_SEC, NULL);
		too_late = fake_hook_in != 0;
		assert_int_equal(rc, too_late ? 0 : -EINTR);
		assert_true(!too_late || when > 2);
		fake_hook_in = 0;
	}
}

static void test_the_mask_says_which_signals_end_the_wait(void **state)
{
	sigset_t none, usr1, now;

	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	add(&s[0], EPOLLIN);
	for (int poll = -1; poll < 1; poll++) {
		params.select_poll = poll;
		/* Blocked outside, let in by the mask. */
		sigprocmask(SIG_SETMASK, &usr1, NULL);
		fake_catch(SIGUSR1);
		assert_int_equal(wait_interrupted(&none, LONG), -EINTR);
		assert_int_equal(fake_signals, 1);
		sigprocmask(SIG_SETMASK, NULL, &now);
		assert_true(sigismember(&now, SIGUSR1));
		/* Pending already. */
		raise(SIGUSR1);
		assert_int_equal(epoll_wait_set(ep, got, 8, LONG, &none), -EINTR);
		fake_pause(0); /* ThreadSanitizer calls handlers late */
		assert_int_equal(fake_signals, 2);
		/* The reverse: it comes when the wait is over. */
		sigprocmask(SIG_SETMASK, &none, NULL);
		fake_catch(SIGUSR1);
		assert_int_equal(wait_interrupted(&usr1, 100 * MSEC), 0);
		assert_int_equal(fake_signals, 1);
	}
}

/* ---- sets in sets ------------------------------------------------------------------------------ */

static struct fake_sock nested; /* stands for the descriptor of other */

static void nest(uint32_t events)
{
	nested.sk.type = SOCK_TYPE_EPOLL;
	nested.sk.epoll = other;
	nested.sk.gen++;
	nested.fd = other_epfd;
	nested.sk.twin = other_epfd;
	list_init(&nested.sk.watches);
	add(&nested, events);
}

static void test_a_set_in_a_set_is_readable_when_it_has_something(void **state)
{
	struct fake_later later;

	assert_int_equal(ctl_set(other, EPOLL_CTL_ADD, &s[0], EPOLLIN), 0);
	nest(EPOLLIN);
	expect_nothing();
	fake_set(&s[0], EPOLLIN);
	expect(&nested, EPOLLIN);
	fake_clear(&s[0], EPOLLIN);
	expect_nothing();
	params.select_poll = 0;
	fake_later_start(&later, 5 * MSEC, fake_send_in, &s[0]);
	assert_int_equal(wait_for_event(), 1);
	assert_ptr_equal(got[0].data.ptr, &nested);
	fake_later_join(&later);
	fake_clear(&s[0], EPOLLIN);
	fake_later_start(&later, 5 * MSEC, fake_set_in, &s[0]);
	assert_int_equal(wait_for_event(), 1);
	fake_later_join(&later);
	assert_int_equal(ctl(EPOLL_CTL_DEL, &nested, 0), 0);
	expect_nothing();
}

static void test_a_set_cannot_be_in_itself(void **state)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct fake_sock outer = {.fd = epfd, .sk = {.type = SOCK_TYPE_EPOLL, .epoll = ep}};

	list_init(&outer.sk.watches);
	nest(EPOLLIN);
	assert_int_equal(epoll_control(ep, EPOLL_CTL_ADD, epfd, fake_ref(&outer), &event), -EINVAL);
	assert_int_equal(epoll_control(other, EPOLL_CTL_ADD, epfd, fake_ref(&outer), &event),
			 -ELOOP);
}

/* ---- processes, threads --------------------------------------------------------------------------- */

static void test_a_child_finds_its_sockets_in_the_kernels_set(void **state)
{
	int status;
	pid_t child;

	struct epoll_event event = {.events = EPOLLIN, .data.ptr = &s[2]};

	add(&s[0], EPOLLIN);
	add(&s[2], 0);
	child = fork();
	if (child == 0) {
		epoll_fork_child();
		s[2].sk.gen++;
		epoll_settle(ep);
		if (epoll_ctl(epfd, EPOLL_CTL_MOD, s[2].fd, &event))
			_exit(2);
		s[0].sk.gen++; /* the kernel serves all of them */
		fake_kernel_send(s[0].fd);
		if (epoll_wait_set(ep, got, 8, LONG, NULL) != 1 || got[0].data.ptr != &s[0] ||
		    !epoll_is_plain(ep))
			_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	fake_set(&s[0], EPOLLIN);
	assert_true(look() > 0);
}

static void *wait_to_be_cancelled(void *arg)
{
	struct epoll_event events[8];

	epoll_wait_set(arg, events, 8, NSEC_NEVER, NULL);
	return NULL;
}

static void test_a_wait_can_be_cancelled(void **state)
{
	params.select_poll = 0;
	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		void *result;

		if (i == 10)
			add(&s[0], EPOLLIN); /* until then the entry is in the kernel's set */
		pthread_create(&thread, NULL, wait_to_be_cancelled, ep);
		fake_pause(i % 10 * 200 * NSEC_PER_USEC);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		assert_int_equal(sleep_place_used(&fake_ring.sleepers), 0);
	}
	fake_set(&s[0], EPOLLIN);
	expect(&s[0], EPOLLIN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_level_reports_as_long_as_it_is_true),
	TEST(test_edge_reports_once_per_event),
	TEST(test_oneshot_reports_once_until_modified),
	TEST(test_new_interest_in_what_is_ready_is_reported_at_once),
	TEST(test_errors_and_hangup_need_not_be_asked_for),
	TEST(test_rdhup_and_aliases_are_reported_when_asked_for),
	TEST(test_with_little_room_every_entry_gets_its_turn),
	TEST(test_a_socket_in_two_sets_is_reported_in_both),
	TEST(test_two_descriptors_of_one_socket_are_two_entries),
	TEST(test_control_refuses_as_the_kernel_does),
	TEST(test_control_of_a_socket_that_leaves_is_for_the_kernel),
	TEST(test_deleting_what_is_in_the_queue_leaves_nothing),
	TEST(test_many_entries_are_found_again),
	TEST(test_a_closed_socket_leaves_the_set),
	TEST(test_its_number_can_be_added_again),
	TEST(test_a_set_is_destroyed_with_everything_in_it),
	TEST(test_a_socket_that_leaves_becomes_the_kernels_entry),
	TEST(test_kernel_descriptors_are_reported_with_their_data),
	TEST(test_what_the_kernel_receives_for_a_socket_is_reported_as_its_own),
	TEST(test_a_twin_that_begins_to_matter_is_noticed),
	TEST(test_a_stray_twin_does_not_keep_us_awake),
	TEST(test_timeouts_are_never_short_polling_or_asleep),
	TEST(test_a_plain_set_waits_in_the_kernel),
	TEST(test_events_reach_a_wait_polling_and_asleep),
	TEST(test_an_event_is_not_slept_through_whenever_it_comes),
	TEST(test_two_events_wake_two_sleepers),
	TEST(test_the_first_socket_reaches_a_wait_in_the_kernel),
	TEST(test_a_socket_added_during_a_sleep_is_waited_for),
	TEST(test_a_set_closed_during_a_wait_ends_it),
	TEST(test_a_sleep_uses_no_cpu),
	TEST(test_a_handler_ends_the_wait_polling_and_asleep),
	TEST(test_a_handler_at_any_step_of_a_wait_ends_it),
	TEST(test_the_mask_says_which_signals_end_the_wait),
	TEST(test_a_set_in_a_set_is_readable_when_it_has_something),
	TEST(test_a_set_cannot_be_in_itself),
	TEST(test_a_child_finds_its_sockets_in_the_kernels_set),
	TEST(test_a_wait_can_be_cancelled),
};

VMA_TEST_MAIN("epoll", tests, NULL, NULL)
