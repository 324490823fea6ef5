/* SPDX-License-Identifier: BSD-2-Clause */
/* The rings and the kernel set of twins of an epoll set, as its sockets change. */
#include "sock/wait/epoll_internal.h"

#include <sys/resource.h>

#include "tests/unit/sock/fake_sock.h"

#define N 20 /* more twins than one look takes */

static struct fake_sock s[N];
static int epfd;
static struct epoll *ep;

static int setup(void **state)
{
	fake_init();
	for (int i = 0; i < N; i++) {
		fake_open(&s[i]);
		s[i].twin_matters = true;
	}
	epfd = epoll_create1(EPOLL_CLOEXEC);
	ep = epoll_create_set(epfd);
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < N; i++)
		fake_close(&s[i]);
	epoll_destroy_set(ep);
	close(epfd);
	fake_fini();
	return 0;
}

static int ctl(int op, struct fake_sock *fake, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = fake};

	return epoll_control(ep, op, fake->fd, fake_ref(fake), &event);
}

static struct entry *entry_of(struct fake_sock *fake)
{
	struct entry *entry;

	assert_true(epoll_lock(ep));
	entry = entry_find(ep, fake->fd, fake_ref(fake));
	epoll_unlock(ep);
	return entry;
}

static bool has_twin(struct fake_sock *fake)
{
	return entry_of(fake)->twin;
}

/* The number of twins that the kernel has something for. */
static int look(void)
{
	uint32_t before;
	int n;

	assert_true(epoll_lock(ep));
	before = ep->news;
	epoll_look_at_twins(ep);
	n = (int)(ep->news - before);
	epoll_unlock(ep);
	return n;
}

static void follow(nsec_t now)
{
	assert_true(epoll_lock(ep));
	epoll_follow_rings(ep, now);
	epoll_unlock(ep);
}

/* ---- twins ------------------------------------------------------------------------------ */

static void test_a_set_without_twins_has_no_kernel_set(void **state)
{
	s[0].twin_matters = false;
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[0], EPOLLIN), 0);
	assert_int_equal(ep->twins, -1);
	assert_int_equal(look(), 0);
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[1], EPOLLIN), 0);
	assert_true(ep->twins >= 0);
}

static void test_what_the_kernel_has_is_news_of_its_entry(void **state)
{
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[0], EPOLLIN), 0);
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[1], EPOLLIN), 0);
	assert_int_equal(look(), 0);
	fake_kernel_send(s[1].fd);
	assert_int_equal(look(), 1);
	assert_true(s[1].sk.twin_events & EPOLLIN);
	assert_int_equal(s[0].sk.twin_events, 0);
	assert_int_equal(look(), 1); /* level-triggered */
	fake_kernel_recv(s[1].fd);
	assert_int_equal(look(), 0);
}

static void test_an_edge_is_news_once(void **state)
{
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[0], EPOLLIN | EPOLLET), 0);
	fake_kernel_send(s[0].fd);
	assert_int_equal(look(), 1);
	assert_int_equal(look(), 0);
	fake_kernel_send(s[0].fd);
	assert_int_equal(look(), 1);
	fake_kernel_recv(s[0].fd);
	fake_kernel_recv(s[0].fd);
}

/* None is forgotten, though one look takes 16 of them. */
static void test_many_twins_take_turns(void **state)
{
	for (int i = 0; i < N; i++) {
		assert_int_equal(ctl(EPOLL_CTL_ADD, &s[i], EPOLLIN), 0);
		fake_kernel_send(s[i].fd);
	}
	assert_int_equal(look(), 16);
	look();
	for (int i = 0; i < N; i++) {
		assert_true(s[i].sk.twin_events & EPOLLIN);
		fake_kernel_recv(s[i].fd);
	}
	assert_int_equal(look(), 0);
}

static void test_only_a_reader_needs_the_twin_of_a_connection(void **state)
{
	s[0].sk.type = SOCK_TYPE_TCP;
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[0], EPOLLOUT), 0);
	assert_false(has_twin(&s[0]));
	assert_int_equal(ctl(EPOLL_CTL_MOD, &s[0], EPOLLIN), 0);
	assert_true(has_twin(&s[0]));
	assert_int_equal(ctl(EPOLL_CTL_MOD, &s[0], EPOLLOUT), 0);
	assert_false(has_twin(&s[0]));
	fake_kernel_send(s[0].fd);
	assert_int_equal(look(), 0);
	fake_kernel_recv(s[0].fd);
	/* A sender of datagrams gets their errors from it. */
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[1], EPOLLOUT), 0);
	assert_true(has_twin(&s[1]));
	s[0].sk.type = SOCK_TYPE_UDP;
}

static void test_a_oneshot_entry_that_was_reported_hears_nothing(void **state)
{
	struct epoll_event got;

	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[0], EPOLLIN | EPOLLONESHOT), 0);
	fake_kernel_send(s[0].fd);
	assert_int_equal(look(), 1);
	assert_int_equal(epoll_wait_set(ep, &got, 1, 0, NULL), 1);
	fake_generation++;
	follow(NSEC_NEVER);
	assert_false(has_twin(&s[0]));
	assert_int_equal(look(), 0);
	assert_int_equal(epoll_wait_set(ep, &got, 1, 0, NULL), 0);
	assert_int_equal(ctl(EPOLL_CTL_MOD, &s[0], EPOLLIN | EPOLLONESHOT), 0);
	assert_int_equal(look(), 1);
	fake_kernel_recv(s[0].fd);
}

static void test_an_entry_that_is_removed_leaves_the_kernel_set(void **state)
{
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[0], EPOLLIN), 0);
	fake_kernel_send(s[0].fd);
	assert_int_equal(ctl(EPOLL_CTL_DEL, &s[0], 0), 0);
	assert_int_equal(look(), 0);
	fake_kernel_recv(s[0].fd);
}

/*
 * The file of a descriptor that was closed is open elsewhere, as in a forked child: the kernel
 * goes on reporting it, under a name that is no entry any more.
 */
static void test_a_stray_twin_makes_a_new_kernel_set(void **state)
{
	uint32_t version;
	int elsewhere, number, fd = s[0].fd;

	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[0], EPOLLIN), 0);
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[1], EPOLLIN), 0);
	elsewhere = dup(fd);
	fake_kernel_send(elsewhere);
	fake_end(&s[0]);
	close(fd);
	fake_generation++;
	follow(NSEC_NEVER);
	number = ep->twins;
	version = ep->version;
	assert_int_equal(look(), 0);
	assert_int_equal(ep->twins, number); /* threads may be about to sleep on it */
	assert_int_not_equal(ep->version, version);
	version = ep->version;
	assert_int_equal(look(), 0); /* it is silent now */
	assert_int_equal(ep->version, version);
	fake_kernel_send(s[1].fd); /* the others are in the new one */
	assert_int_equal(look(), 1);
	fake_kernel_recv(s[1].fd);
	close(elsewhere);
	fake_open(&s[0]);
}

/* No descriptor is left: sockets work without twins, and get theirs when there are some again. */
static void test_a_kernel_set_that_cannot_be_made(void **state)
{
	struct rlimit limit, none;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[0], EPOLLIN), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(ep->twins < 0);
	assert_false(has_twin(&s[0]));
	assert_int_equal(look(), 0);
	fake_generation++;
	follow(NSEC_NEVER);
	assert_true(has_twin(&s[0]));
	fake_kernel_send(s[0].fd);
	assert_int_equal(look(), 1);
	fake_kernel_recv(s[0].fd);
}

/* ---- rings ------------------------------------------------------------------------------- */

static void test_rings_are_looked_for_when_they_have_changed(void **state)
{
	uint32_t version;

	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[0], EPOLLIN), 0);
	follow(NSEC_NEVER);
	assert_int_equal(ep->rings.n, 1);
	assert_ptr_equal(ep->rings.rings[0], &fake_ring);
	version = ep->version;
	follow(NSEC_NEVER);
	assert_int_equal(ep->version, version); /* sleepers are not woken for nothing */
	__atomic_store_n(&s[0].sk.home, NULL, __ATOMIC_RELEASE);
	follow(NSEC_NEVER);
	assert_int_equal(ep->rings.n, 1); /* nobody has said so */
	fake_generation++;
	follow(NSEC_NEVER);
	assert_int_equal(ep->rings.n, 0);
	assert_int_not_equal(ep->version, version);
}

/* Following many sockets takes a tenth of the time at most, unless there is nothing else to do. */
static void test_following_is_put_off(void **state)
{
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[0], EPOLLIN), 0);
	fake_generation++;
	follow(NSEC_NEVER);
	assert_true(ep->rings_next > 0);
	fake_generation++;
	__atomic_store_n(&s[0].sk.home, NULL, __ATOMIC_RELEASE);
	follow(ep->rings_next - 1);
	assert_int_equal(ep->rings.n, 1);
	follow(ep->rings_next);
	assert_int_equal(ep->rings.n, 0);
}

static void test_entries_of_sockets_that_ended_go(void **state)
{
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[0], EPOLLIN), 0);
	assert_int_equal(ctl(EPOLL_CTL_ADD, &s[1], EPOLLIN), 0);
	fake_close(&s[0]);
	fake_generation++;
	follow(NSEC_NEVER);
	assert_int_equal(ep->n_entries, 1);
	fake_open(&s[0]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	CASE(test_a_set_without_twins_has_no_kernel_set),
	CASE(test_what_the_kernel_has_is_news_of_its_entry),
	CASE(test_an_edge_is_news_once),
	CASE(test_many_twins_take_turns),
	CASE(test_only_a_reader_needs_the_twin_of_a_connection),
	CASE(test_a_oneshot_entry_that_was_reported_hears_nothing),
	CASE(test_an_entry_that_is_removed_leaves_the_kernel_set),
	CASE(test_a_stray_twin_makes_a_new_kernel_set),
	CASE(test_a_kernel_set_that_cannot_be_made),
	CASE(test_rings_are_looked_for_when_they_have_changed),
	CASE(test_following_is_put_off),
	CASE(test_entries_of_sockets_that_ended_go),
};

VMA_TEST_MAIN("epoll_rings", tests, NULL, NULL)
