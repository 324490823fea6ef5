/* SPDX-License-Identifier: BSD-2-Clause */
#include <sys/resource.h>

#include "base/param.h"
#include "sock/wait/epoll.h"

#include "tests/unit/sock/fake_sock.h"

#define N 4
#define MSEC NSEC_PER_MSEC
#define LONG (20 * NSEC_PER_SEC) /* longer than any wait */

static struct fake_sock s[N];
static int pipe_fds[2];

static int setup(void **state)
{
	(void)state;
	fake_init();
	for (int i = 0; i < N; i++)
		fake_open(&s[i]);
	params.select_poll = 100;
	params.select_skip_os = 4;
	params.select_poll_os_ratio = 10;
	return pipe(pipe_fds);
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < N; i++)
		fake_close(&s[i]);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	fake_fini();
	return 0;
}

static int poll_for(struct pollfd *fds, nfds_t n, nsec_t timeout)
{
	return poll_sockets(fds, n, timeout, NULL, fake_lookup);
}

/* Another thread ends the wait long before its timeout. */
static int wait_for_event(struct pollfd *fds, nfds_t n)
{
	nsec_t began = fake_now();
	int ready = poll_for(fds, n, LONG);

	assert_true(fake_now() - began < LONG / 2);
	return ready;
}

static short ask(int fd, short events, int expected)
{
	struct pollfd pfd = {.fd = fd, .events = events, .revents = 0x55};

	assert_int_equal(poll_for(&pfd, 1, 0), expected);
	return pfd.revents;
}

/* ---- poll() ------------------------------------------------------------------------ */

static void test_revents_are_what_was_asked_for_and_errors(void **state)
{
	int fd = s[0].fd;

	assert_int_equal(ask(fd, POLLIN | POLLOUT, 0), 0);
	fake_set(&s[0], EPOLLIN);
	assert_int_equal(ask(fd, POLLIN | POLLOUT, 1), POLLIN);
	assert_int_equal(ask(fd, POLLIN | POLLRDNORM, 1), POLLIN | POLLRDNORM);
	assert_int_equal(ask(fd, POLLOUT, 0), 0);
	fake_set(&s[0], EPOLLOUT | EPOLLPRI | EPOLLRDHUP);
	assert_int_equal(ask(fd, POLLOUT, 1), POLLOUT);
	assert_int_equal(ask(fd, POLLWRNORM, 1), POLLWRNORM);
	assert_int_equal(ask(fd, POLLPRI | POLLRDHUP, 1), POLLPRI | POLLRDHUP);
	assert_int_equal(ask(fd, 0, 0), 0);
	fake_set(&s[0], EPOLLERR | EPOLLHUP);
	assert_int_equal(ask(fd, 0, 1), POLLERR | POLLHUP);
}

static void test_kernel_descriptors_are_the_kernels(void **state)
{
	struct pollfd fds[] = {
		{.fd = s[0].fd, .events = POLLIN},
		{.fd = pipe_fds[0], .events = POLLIN},
		{.fd = -7, .events = POLLIN, .revents = 1}, /* ignored */
		{.fd = FAKE_FDS - 1, .events = POLLIN},	    /* not open */
		{.fd = pipe_fds[1], .events = POLLIN | POLLOUT},
	};

	assert_int_equal(wait_for_event(fds, 5), 2);
	assert_int_equal(fds[0].revents, 0);
	assert_int_equal(fds[1].revents, 0);
	assert_int_equal(fds[2].revents, 0);
	assert_int_equal(fds[3].revents, POLLNVAL);
	assert_int_equal(fds[4].revents, POLLOUT);
	assert_int_equal(write(pipe_fds[1], "x", 1), 1);
	assert_int_equal(wait_for_event(fds, 2), 1);
	assert_int_equal(fds[1].revents, POLLIN);
	close(pipe_fds[0]);
	pipe_fds[0] = dup(pipe_fds[1]);
	assert_int_equal(wait_for_event(fds + 4, 1), 1);
	assert_int_equal(fds[4].revents, POLLOUT | POLLERR);
}

static void test_one_descriptor_twice_counts_twice(void **state)
{
	struct pollfd fds[] = {{.fd = s[0].fd, .events = POLLIN},
			       {.fd = s[0].fd, .events = POLLIN | POLLOUT}};

	fake_set(&s[0], EPOLLIN);
	assert_int_equal(poll_for(fds, 2, 0), 2);
	assert_int_equal(fds[1].revents, POLLIN);
}

static void test_the_twin_counts_where_it_matters(void **state)
{
	fake_kernel_send(s[0].fd);
	assert_int_equal(ask(s[0].fd, POLLIN, 0), 0);
	s[0].twin_matters = true;
	assert_int_equal(ask(s[0].fd, POLLIN, 1), POLLIN);
	assert_int_equal(ask(s[0].fd, POLLRDNORM, 1), POLLRDNORM);
	assert_int_equal(ask(s[0].fd, POLLOUT, 0), 0);
	fake_kernel_recv(s[0].fd);
	assert_int_equal(ask(s[0].fd, POLLIN, 0), 0);
}

static void wait_exactly(nsec_t timeout)
{
	struct pollfd fds[] = {{.fd = s[0].fd, .events = POLLIN},
			       {.fd = pipe_fds[0], .events = POLLIN}};
	nsec_t start = fake_now(), took;

	assert_int_equal(poll_for(fds, 2, timeout), 0);
	took = fake_now() - start;
	assert_true(took >= timeout);
	assert_true(took < timeout + 500 * MSEC);
}

static void test_timeouts_are_never_short_polling_or_asleep(void **state)
{
	for (int poll = -1; poll < 2; poll++) {
		params.select_poll = poll * 1000;
		wait_exactly(0);
		wait_exactly(100 * NSEC_PER_USEC);
		wait_exactly(3 * MSEC);
		wait_exactly(30 * MSEC);
	}
}

static void test_a_sleep_uses_no_cpu(void **state)
{
	unsigned polls = fake_polls;

	params.select_poll = 0;
	wait_exactly(50 * MSEC);
	assert_true(fake_polls - polls < 10);
}

static void kernel_send(void *arg)
{
	fake_kernel_send(((struct fake_sock *)arg)->fd);
}

static void write_pipe(void *arg)
{
	(void)arg;
	assert_int_equal(write(pipe_fds[1], "x", 1), 1);
}

/* Each row while it polls and while it sleeps. */
static void test_events_reach_a_wait_polling_and_asleep(void **state)
{
	static void (*const ways[])(void *) = {fake_set_in, fake_send_in, kernel_send, write_pipe};
	struct fake_later later;
	char c;

	s[2].twin_matters = true;
	for (int poll = -1; poll < 1; poll++) {
		params.select_poll = poll;
		for (int way = 0; way < 4; way++) {
			struct pollfd fds[] = {{.fd = s[0].fd, .events = POLLIN},
					       {.fd = s[1].fd, .events = POLLIN},
					       {.fd = s[2].fd, .events = POLLIN},
					       {.fd = pipe_fds[0], .events = POLLIN}};

			fake_later_start(&later, 5 * MSEC, ways[way], &s[way % 3]);
			assert_int_equal(wait_for_event(fds, 4), 1);
			for (int i = 0; i < 4; i++)
				assert_int_equal(fds[i].revents, i == way ? POLLIN : 0);
			fake_later_join(&later);
			fake_clear(&s[way % 3], EPOLLIN);
			if (way == 2)
				fake_kernel_recv(s[2].fd);
		}
		assert_int_equal(read(pipe_fds[0], &c, 1), 1);
	}
}

static void set_first(void)
{
	fake_set(&s[0], EPOLLIN);
}

static void test_an_event_is_not_slept_through_whenever_it_comes(void **state)
{
	struct pollfd pfd = {.fd = s[0].fd, .events = POLLIN};
	bool too_late = false;

	params.select_poll = 0;
	fake_hook = set_first;
	for (unsigned when = 1; !too_late; when++) {
		nsec_t began = fake_now();

		fake_hook_in = when;
		poll_for(&pfd, 1, NSEC_PER_SEC);
		too_late = fake_hook_in != 0;
		assert_true(too_late || fake_now() - began < NSEC_PER_SEC);
		assert_true(!too_late || when > 2);
		fake_hook_in = 0;
		fake_clear(&s[0], EPOLLIN);
	}
}

static void close_first(void *arg)
{
	(void)arg;
	fake_close(&s[0]);
}

static void leave_first(void *arg)
{
	(void)arg;
	fake_end(&s[0]);
}

static void test_a_socket_that_ends_or_leaves_is_the_kernels(void **state)
{
	struct fake_later later;

	for (int poll = -1; poll < 1; poll++) {
		struct pollfd fds[] = {{.fd = s[0].fd, .events = POLLIN},
				       {.fd = s[1].fd, .events = POLLIN}};

		params.select_poll = poll;
		fake_later_start(&later, 5 * MSEC, close_first, NULL);
		assert_int_equal(wait_for_event(fds, 2), 1);
		assert_int_equal(fds[0].revents, POLLNVAL);
		fake_later_join(&later);
		fake_open(&s[0]);

		fake_kernel_send(s[0].fd); /* its twin does not count yet */
		fake_later_start(&later, 5 * MSEC, leave_first, NULL);
		assert_int_equal(wait_for_event(fds, 2), 1);
		assert_int_equal(fds[0].revents, POLLIN);
		fake_later_join(&later);
		close(s[0].fd);
		fake_open(&s[0]);
	}
}

static void test_large_arrays(void **state)
{
	enum { LARGE = 600 };
	struct pollfd *fds = calloc(LARGE, sizeof(*fds));

	for (int poll = 0; poll < 2; poll++) {
		params.select_poll = poll;
		for (int i = 0; i < LARGE; i++) {
			fds[i].fd = i % 3 ? s[i % N].fd : pipe_fds[0];
			fds[i].events = POLLIN;
		}
		assert_int_equal(poll_for(fds, LARGE, 20 * MSEC), 0);
		fake_set(&s[1], EPOLLIN);
		assert_int_equal(wait_for_event(fds, LARGE), LARGE / N * 2 / 3);
		fake_clear(&s[1], EPOLLIN);
		assert_true(list_empty(&s[0].sk.watches));
	}
	free(fds);
}

static void test_an_epoll_set_can_be_polled(void **state)
{
	int epfd = epoll_create1(EPOLL_CLOEXEC);
	struct fake_sock set = {.fd = epfd,
				.sk = {.type = SOCK_TYPE_EPOLL, .gen = 1, .twin = epfd}};
	struct epoll_event event = {.events = EPOLLIN};
	struct pollfd pfd = {.fd = epfd, .events = POLLIN};
	struct fake_later later;

	set.sk.epoll = epoll_create_set(epfd);
	fake_by_fd[epfd] = &set;
	assert_int_equal(
		epoll_control(set.sk.epoll, EPOLL_CTL_ADD, s[0].fd, fake_ref(&s[0]), &event), 0);
	assert_int_equal(ask(epfd, POLLIN, 0), 0);
	for (int poll = -1; poll < 1; poll++) {
		params.select_poll = poll;
		fake_later_start(&later, 5 * MSEC, fake_set_in, &s[0]);
		assert_int_equal(wait_for_event(&pfd, 1), 1);
		assert_int_equal(pfd.revents, POLLIN);
		fake_later_join(&later);
		fake_clear(&s[0], EPOLLIN);
		assert_int_equal(ask(epfd, POLLIN, 0), 0);
		fake_later_start(&later, 5 * MSEC, fake_send_in, &s[0]);
		assert_int_equal(wait_for_event(&pfd, 1), 1);
		fake_later_join(&later);
		fake_clear(&s[0], EPOLLIN);
	}
	/* The kernel's part of it. */
	assert_int_equal(epoll_ctl(epfd, EPOLL_CTL_ADD, pipe_fds[0], &event), 0);
	fake_later_start(&later, 5 * MSEC, write_pipe, NULL);
	assert_int_equal(wait_for_event(&pfd, 1), 1);
	fake_later_join(&later);
	epoll_destroy_set(set.sk.epoll);
	fake_by_fd[epfd] = NULL;
	close(epfd);
}

/* ---- signals -------------------------------------------------------------------------- */

static int wait_interrupted(const sigset_t *mask, nsec_t timeout)
{
	struct pollfd pfd = {.fd = s[0].fd, .events = POLLIN};
	struct fake_interrupter interrupter;
	int rc;

	fake_interrupt_start(&interrupter);
	rc = poll_sockets(&pfd, 1, timeout, mask, fake_lookup);
	fake_interrupt_stop(&interrupter);
	return rc;
}

static void test_a_handler_ends_the_wait_polling_and_asleep(void **state)
{
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
	struct pollfd pfd = {.fd = s[0].fd, .events = POLLIN};
	bool too_late = false;

	params.select_poll = 0;
	fake_hook = handle_one;
	for (unsigned when = 1; !too_late; when++) {
		int rc;

		fake_hook_in = when;
		rc = poll_sockets(&pfd, 1, NSEC_PER_SEC, NULL, fake_lookup);
		too_late = fake_hook_in != 0;
		assert_int_equal(rc, too_late ? 0 : -EINTR);
		assert_true(!too_late || when > 2);
		fake_hook_in = 0;
	}
}

static void test_the_mask_says_which_signals_end_the_wait(void **state)
{
	struct pollfd pfd = {.fd = s[0].fd, .events = POLLIN};
	sigset_t none, usr1, now;

	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	for (int poll = -1; poll < 1; poll++) {
		params.select_poll = poll;
		params.select_poll_os_ratio = poll ? 10 : 0;
		sigprocmask(SIG_SETMASK, &usr1, NULL);
		fake_catch(SIGUSR1);
		assert_int_equal(wait_interrupted(&none, LONG), -EINTR);
		assert_int_equal(fake_signals, 1);
		sigprocmask(SIG_SETMASK, NULL, &now);
		assert_true(sigismember(&now, SIGUSR1));
		/* Pending: events are returned first; then the signal comes. */
		raise(SIGUSR1);
		fake_set(&s[0], EPOLLIN);
		params.select_skip_os = 0;
		assert_int_equal(poll_sockets(&pfd, 1, 0, &none, fake_lookup), 1);
		assert_int_equal(fake_signals, 1);
		fake_clear(&s[0], EPOLLIN);
		assert_int_equal(poll_sockets(&pfd, 1, 0, &none, fake_lookup), -EINTR);
		fake_pause(0); /* ThreadSanitizer calls handlers late */
		assert_int_equal(fake_signals, 2);
		/* It is deferred until the call is over. */
		sigprocmask(SIG_SETMASK, &none, NULL);
		fake_catch(SIGUSR1);
		assert_int_equal(wait_interrupted(&usr1, 100 * MSEC), 0);
		assert_int_equal(fake_signals, 1);
	}
}

static void *poll_to_be_cancelled(void *arg)
{
	struct pollfd fds[40];

	for (int i = 0; i < 40; i++)
		fds[i] = (struct pollfd){.fd = s[i % N].fd, .events = POLLIN};
	poll_for(fds, 40, NSEC_NEVER);
	return arg;
}

static void test_a_wait_can_be_cancelled(void **state)
{
	params.select_poll = 0;
	for (int i = 0; i < 20; i++) {
		pthread_t thread;
		void *result;

		pthread_create(&thread, NULL, poll_to_be_cancelled, NULL);
		fake_pause(i * 100 * NSEC_PER_USEC);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		assert_int_equal(sleep_place_used(&fake_ring.sleepers), 0);
		for (int k = 0; k < N; k++)
			assert_true(list_empty(&s[k].sk.watches));
	}
}

/* ---- select() --------------------------------------------------------------------------- */

static void test_select_maps_events_as_the_kernel_does(void **state)
{
	static const struct {
		uint32_t events;
		bool read, write, except;
	} rows[] = {
		{0, false, false, false},	   {EPOLLIN, true, false, false},
		{EPOLLOUT, false, true, false},	   {EPOLLPRI, false, false, true},
		{EPOLLERR, true, true, false},	   {EPOLLHUP, true, false, false},
		{EPOLLRDHUP, false, false, false}, {EPOLLIN | EPOLLOUT, true, true, false},
	};
	int fd = s[0].fd;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int bits = rows[i].read + rows[i].write + rows[i].except;
		fd_set r, w, e;

		FD_ZERO(&r);
		FD_SET(fd, &r);
		w = e = r;
		fake_clear(&s[0], ~0u);
		if (rows[i].events)
			fake_set(&s[0], rows[i].events);
		assert_int_equal(select_sockets(fd + 1, &r, &w, &e, 0, NULL, fake_lookup), bits);
		assert_int_equal(!!FD_ISSET(fd, &r), rows[i].read);
		assert_int_equal(!!FD_ISSET(fd, &w), rows[i].write);
		assert_int_equal(!!FD_ISSET(fd, &e), rows[i].except);
	}
}

static void test_select_looks_at_n_descriptors_only(void **state)
{
	fd_set r;

	FD_ZERO(&r);
	FD_SET(s[0].fd, &r);
	FD_SET(s[1].fd, &r);
	fake_set(&s[0], EPOLLIN);
	fake_set(&s[1], EPOLLIN);
	assert_true(s[0].fd < s[1].fd);
	assert_int_equal(select_sockets(s[1].fd, &r, NULL, NULL, 0, NULL, fake_lookup), 1);
	assert_int_equal(select_sockets(-1, &r, NULL, NULL, 0, NULL, fake_lookup), -EINVAL);
}

static void test_select_refuses_a_descriptor_that_is_not_open(void **state)
{
	fd_set r;

	FD_ZERO(&r);
	FD_SET(s[0].fd, &r);
	FD_SET(1000, &r);
	assert_int_equal(select_sockets(1001, &r, NULL, NULL, LONG, NULL, fake_lookup), -EBADF);
	assert_true(FD_ISSET(s[0].fd, &r)); /* untouched */
	assert_true(FD_ISSET(1000, &r));
}

static void test_select_beyond_fd_setsize(void **state)
{
	struct rlimit limit = {4096, 4096};
	unsigned long set[4096 / 64];
	int fd;

	setrlimit(RLIMIT_NOFILE, &limit);
	fd = fcntl(pipe_fds[0], F_DUPFD, 2000);
	assert_true(fd >= 2000);
	memset(set, 0, sizeof(set));
	set[fd / 64] |= 1ul << fd % 64;
	set[s[0].fd / 64] |= 1ul << s[0].fd % 64;
	write_pipe(NULL);
	assert_int_equal(select_sockets(fd + 1, (fd_set *)(void *)set, NULL, NULL, LONG, NULL,
					fake_lookup),
			 1);
	assert_int_equal(set[fd / 64], 1ul << fd % 64);
	close(fd);
}

static void test_select_times_out_with_empty_sets(void **state)
{
	nsec_t start = fake_now();
	fd_set r;

	params.select_poll = 0;
	FD_ZERO(&r);
	FD_SET(s[0].fd, &r);
	assert_int_equal(select_sockets(s[0].fd + 1, &r, NULL, NULL, 20 * MSEC, NULL, fake_lookup),
			 0);
	assert_true(fake_now() - start >= 20 * MSEC);
	assert_false(FD_ISSET(s[0].fd, &r));
}

/* poll() reports a hang-up for any requested event; select() does not. */
static void test_an_unrequested_hang_up_does_not_keep_select_awake(void **state)
{
	nsec_t start = fake_now();
	unsigned polls = fake_polls;
	fd_set r, e;

	close(pipe_fds[1]);
	pipe_fds[1] = dup(pipe_fds[0]);
	params.select_poll = 0;
	FD_ZERO(&r);
	FD_ZERO(&e);
	FD_SET(s[0].fd, &r);
	FD_SET(pipe_fds[0], &e);
	assert_int_equal(select_sockets(FD_SETSIZE, &r, NULL, &e, 50 * MSEC, NULL, fake_lookup), 0);
	assert_true(fake_now() - start >= 50 * MSEC);
	assert_true(fake_polls - polls < 50);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_revents_are_what_was_asked_for_and_errors),
	TEST(test_kernel_descriptors_are_the_kernels),
	TEST(test_one_descriptor_twice_counts_twice),
	TEST(test_the_twin_counts_where_it_matters),
	TEST(test_timeouts_are_never_short_polling_or_asleep),
	TEST(test_a_sleep_uses_no_cpu),
	TEST(test_events_reach_a_wait_polling_and_asleep),
	TEST(test_an_event_is_not_slept_through_whenever_it_comes),
	TEST(test_a_socket_that_ends_or_leaves_is_the_kernels),
	TEST(test_large_arrays),
	TEST(test_an_epoll_set_can_be_polled),
	TEST(test_a_handler_ends_the_wait_polling_and_asleep),
	TEST(test_a_handler_at_any_step_of_a_wait_ends_it),
	TEST(test_the_mask_says_which_signals_end_the_wait),
	TEST(test_a_wait_can_be_cancelled),
	TEST(test_select_maps_events_as_the_kernel_does),
	TEST(test_select_looks_at_n_descriptors_only),
	TEST(test_select_refuses_a_descriptor_that_is_not_open),
	TEST(test_select_beyond_fd_setsize),
	TEST(test_select_times_out_with_empty_sets),
	TEST(test_an_unrequested_hang_up_does_not_keep_select_awake),
};

VMA_TEST_MAIN("poll", tests, NULL, NULL)
