/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/async.h"

#include "sock/core/sock.h"
#include "tests/unit/sock/fake_sock.h"

#define INFORMED (SIGRTMIN + 3)

static struct fake_sock fake;
static volatile sig_atomic_t arrived, with_fd, with_band, with_code;

static void handler(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)context;
	arrived++;
	with_fd = info->si_fd;
	with_band = (int)info->si_band;
	with_code = info->si_code;
}

static void catch (int signo)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	assert_int_equal(sigaction(signo, &action, NULL), 0);
}

static int set_up(void **state)
{
	(void)state;
	fake_init();
	fake_open(&fake);
	catch (SIGIO);
	catch (SIGURG);
	catch (INFORMED);
	arrived = with_fd = with_band = with_code = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(sock_set_async(fake_ref(&fake), fake.fd, false), 0);
	assert_true(list_empty(&fake.sk.watches));
	fake_close(&fake);
	fake_fini();
	return 0;
}

static void own(int type, int pid)
{
	struct f_owner_ex owner = {.type = type, .pid = pid};

	assert_int_equal(fcntl(fake.fd, F_SETOWN_EX, &owner), 0);
}

/* The ring is released: what is due is sent now. */
static void release(void)
{
	fake_release();
	ring_try_posted();
	fake_pause(0); /* ThreadSanitizer delivers signals late */
}

/* Reports events as the ring's holder does; returns the signals that came while it was held. */
static int report(uint32_t events)
{
	int while_held;

	fake_hold();
	fake_event(&fake, events);
	while_held = arrived;
	release();
	return while_held;
}

static void test_a_socket_without_o_async_sends_nothing(void **state)
{
	(void)state;
	own(F_OWNER_PID, getpid());
	report(EPOLLIN);
	assert_int_equal(arrived, 0);
}

static void test_the_signal_comes_after_the_ring_was_released(void **state)
{
	(void)state;
	own(F_OWNER_PID, getpid());
	assert_int_equal(sock_set_async(fake_ref(&fake), fake.fd, true), 0);
	assert_int_equal(report(EPOLLIN), 0);
	assert_int_equal(arrived, 1);
}

static void test_nobody_owns_a_new_socket(void **state)
{
	(void)state;
	assert_int_equal(sock_set_async(fake_ref(&fake), fake.fd, true), 0);
	report(EPOLLIN);
	assert_int_equal(arrived, 0);
}

static void test_f_setsig_tells_descriptor_and_event(void **state)
{
	siginfo_t info;

	(void)state;
	own(F_OWNER_TID, (int)gettid());
	assert_int_equal(fcntl(fake.fd, F_SETSIG, INFORMED), 0);
	/* Set twice, by two descriptors of one socket: the last one counts, as one O_ASYNC. */
	assert_int_equal(sock_set_async(fake_ref(&fake), 4000, true), 0);
	assert_int_equal(sock_set_async(fake_ref(&fake), fake.fd, true), 0);
	report(EPOLLIN);
	assert_int_equal(arrived, 1);
	assert_int_equal(with_fd, fake.fd);
	assert_int_equal(with_band, POLLIN | POLLRDNORM);
	report(EPOLLOUT);
	assert_int_equal(with_band, POLLOUT | POLLWRNORM | POLLWRBAND);
	/* What the handler of the program sees in si_code. */
	memset(&info, 0, sizeof(info));
	info.si_code = SI_SIGIO;
	info.si_band = with_band;
	sock_signal_fix(&info);
	assert_int_equal(info.si_code, POLL_OUT);
}

static void test_urgent_data_needs_no_o_async(void **state)
{
	(void)state;
	own(F_OWNER_PID, getpid());
	fake_hold();
	async_urgent(&fake.sk);
	assert_int_equal(arrived, 0);
	release();
	assert_int_equal(arrived, 1);
}

static void test_switched_off_it_sends_nothing(void **state)
{
	(void)state;
	own(F_OWNER_PID, getpid());
	assert_int_equal(sock_set_async(fake_ref(&fake), fake.fd, true), 0);
	assert_int_equal(sock_set_async(fake_ref(&fake), fake.fd, false), 0);
	report(EPOLLIN);
	assert_int_equal(arrived, 0);
}

static void test_a_forked_child_does_not_send_what_its_parent_is_about_to(void **state)
{
	(void)state;
	own(F_OWNER_PID, getpid());
	fake_hold();
	async_urgent(&fake.sk);
	async_fork_child();
	release();
	assert_int_equal(arrived, 0);
}

static void test_a_stale_reference_is_refused(void **state)
{
	struct sock_ref stale = fake_ref(&fake);

	(void)state;
	stale.gen--;
	assert_int_equal(sock_set_async(stale, fake.fd, true), -EBADF);
	assert_true(list_empty(&fake.sk.watches));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	CASE(test_a_socket_without_o_async_sends_nothing),
	CASE(test_the_signal_comes_after_the_ring_was_released),
	CASE(test_nobody_owns_a_new_socket),
	CASE(test_f_setsig_tells_descriptor_and_event),
	CASE(test_urgent_data_needs_no_o_async),
	CASE(test_switched_off_it_sends_nothing),
	CASE(test_a_forked_child_does_not_send_what_its_parent_is_about_to),
	CASE(test_a_stale_reference_is_refused),
};

VMA_TEST_MAIN("async", tests, NULL, NULL)
