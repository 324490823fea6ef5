/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many notifiers against many waiters: all events that were sent are received. A lost wake-up
 * shows as a wait that ends by its timeout.
 */
#include "base/param.h"

#include "tests/unit/sock/fake_sock.h"

#define SOCKETS 8
#define NOTIFIERS 3
#define WAITERS 3
#define EVENTS 4000		  /* per notifier */
#define STUCK (30 * NSEC_PER_SEC) /* a wait of this length has lost an event */

#if defined(__SANITIZE_THREAD__)
#define SHARE 8 /* a sanitizer is slower by this factor */
#else
#define SHARE 1
#endif

/* A socket that counts its events. */
struct counted {
	struct fake_sock fake; /* first */
	uint64_t arrived;      /* holder */
	uint64_t taken;	       /* holder */
};

static struct counted socks[SOCKETS];
static int over;    /* any, atomic: everything was sent */
static int waiting; /* any, atomic: waiters that have not seen the end */

static int setup(void **state)
{
	(void)state;
	fake_init();
	for (int i = 0; i < SOCKETS; i++) {
		fake_open(&socks[i].fake);
		socks[i].arrived = socks[i].taken = 0;
	}
	over = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < SOCKETS; i++)
		fake_close(&socks[i].fake);
	fake_fini();
	return 0;
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 16;
}

/* Waits until the events that it sent were received: no other event repairs a loss. */
static void wait_for_taken(struct counted *sock, uint64_t sent)
{
	nsec_t began = fake_now();
	bool done = false;

	while (!done) {
		fake_hold();
		done = sock->taken >= sent;
		fake_release();
		assert_true(fake_now() - began < STUCK);
		sched_yield();
	}
}

/* Sometimes sends bursts, sometimes waits until the waiters sleep. */
static void *notify(void *arg)
{
	uint32_t seed = (uint32_t)(uintptr_t)arg;

	for (int i = 0; i < EVENTS / SHARE; i++) {
		struct counted *sock = &socks[next_random(&seed) % SOCKETS];
		uint64_t sent;

		fake_hold();
		sent = ++sock->arrived;
		fake_event(&sock->fake, EPOLLIN);
		fake_release();
		if (next_random(&seed) % 4 == 0)
			wait_for_taken(sock, sent);
		if (next_random(&seed) % 32 == 0)
			fake_pause(next_random(&seed) % 64 * NSEC_PER_USEC);
	}
	return NULL;
}

static bool is_over(void)
{
	return __atomic_load_n(&over, __ATOMIC_SEQ_CST);
}

static void start(pthread_t *threads, int n, void *(*fn)(void *))
{
	for (int i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, fn, (void *)(uintptr_t)(i + 1)),
				 0);
}

static void join(pthread_t *threads, int n)
{
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* Runs waiters and notifiers at the same time, to the end. */
static void run(void *(*wait)(void *))
{
	pthread_t notifiers[NOTIFIERS], waiters[WAITERS];

	waiting = WAITERS;
	start(waiters, WAITERS, wait);
	start(notifiers, NOTIFIERS, notify);
	join(notifiers, NOTIFIERS);
	for (int i = 0; i < SOCKETS; i++)
		wait_for_taken(&socks[i], socks[i].arrived);
	__atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&waiting, __ATOMIC_ACQUIRE)) {
		for (int i = 0; i < SOCKETS; i++)
			fake_set(&socks[i].fake, EPOLLIN);
		fake_pause(100 * NSEC_PER_USEC);
	}
	join(waiters, WAITERS);
	for (int i = 0; i < SOCKETS; i++)
		assert_int_equal(socks[i].taken, socks[i].arrived);
	over = 0;
}

static void *waiter_ends(void)
{
	__atomic_fetch_sub(&waiting, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Receives everything, as recv() does. */
static void take_all(struct counted *sock)
{
	fake_hold();
	sock->taken = sock->arrived;
	__atomic_store_n(&sock->fake.sk.events, 0, __ATOMIC_RELEASE);
	fake_release();
}

/* ---- watches --------------------------------------------------------------------- */

/* Gets every event of every socket, by its own watches. */
static void *watch_all(void *arg)
{
	struct waiter *waiter = waiter_self();
	struct watch watches[SOCKETS];

	for (int i = 0; i < SOCKETS; i++) {
		watch_init(&watches[i], waiter, &socks[i].fake.sk, EPOLLIN);
		fake_hold();
		watch_add(&watches[i]);
		fake_release();
		take_all(&socks[i]); /* events from before */
	}
	while (!is_over()) {
		struct watch *watch, *next;
		nsec_t began = fake_now();

		assert_int_equal(fake_sleep_at(waiter, clock_now() + STUCK), 0);
		assert_true(fake_now() - began < STUCK);
		for (watch = waiter_take(waiter); watch; watch = next) {
			next = watch_next(watch);
			take_all((struct counted *)(void *)watch->sk);
		}
	}
	for (int i = 0; i < SOCKETS; i++) {
		fake_hold();
		watch_remove(&watches[i]);
		fake_release();
	}
	waiter_discard(waiter);
	(void)arg;
	return waiter_ends();
}

static void test_waiters_with_watches_lose_nothing(void **state)
{
	run(watch_all);
}

/* ---- epoll sets ---------------------------------------------------------------------- */

static int epfds[2];
static struct epoll *sets[2];
static uint32_t flags; /* of every entry of the set */

static void control(struct epoll *set, int op, struct counted *sock)
{
	struct epoll_event event = {.events = EPOLLIN | flags, .data.ptr = sock};
	int rc = epoll_control(set, op, sock->fake.fd, fake_ref(&sock->fake), &event);

	assert_int_equal(rc, 0);
}

static void *serve(void *arg)
{
	struct epoll *set = sets[(uintptr_t)arg % 2] ? sets[(uintptr_t)arg % 2] : sets[0];

	while (!is_over()) {
		struct epoll_event events[3];
		int n = epoll_wait_set(set, events, 3, STUCK, NULL);

		assert_true(n > 0);
		for (int i = 0; i < n; i++) {
			struct counted *sock = events[i].data.ptr;

			if (sock >= socks && sock < socks + SOCKETS)
				take_all(sock);
			if (flags & EPOLLONESHOT)
				control(set, EPOLL_CTL_MOD, sock);
		}
	}
	return waiter_ends();
}

static void run_sets(int n_sets, uint32_t with)
{
	flags = with;
	for (int i = 0; i < n_sets; i++) {
		epfds[i] = epoll_create1(EPOLL_CLOEXEC);
		sets[i] = epoll_create_set(epfds[i]);
		for (int k = 0; k < SOCKETS; k++)
			control(sets[i], EPOLL_CTL_ADD, &socks[k]);
	}
	run(serve);
	for (int i = 0; i < n_sets; i++) {
		epoll_destroy_set(sets[i]);
		sets[i] = NULL;
		close(epfds[i]);
	}
}

static void test_threads_that_share_a_set_lose_nothing(void **state)
{
	static const uint32_t rows[] = {0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT};

	for (int poll = 0; poll < 2; poll++) {
		params.select_poll = poll * 50;
		for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			run_sets(1, rows[i]);
	}
}

static void test_exclusive_sets_lose_nothing_together(void **state)
{
	params.select_poll = 0;
	run_sets(2, EPOLLEXCLUSIVE);
}

/* ---- with sockets that come and go ------------------------------------------------------ */

static struct counted guests[2];
static int churning; /* any, atomic */

static void *churn(void *arg)
{
	struct counted *guest = &guests[(uintptr_t)arg - 1];

	while (__atomic_load_n(&churning, __ATOMIC_ACQUIRE)) {
		fake_open(&guest->fake);
		control(sets[0], EPOLL_CTL_ADD, guest);
		fake_set(&guest->fake, EPOLLIN);
		if (guest->fake.sk.gen % 4 == 1)
			control(sets[0], EPOLL_CTL_DEL, guest);
		fake_close(&guest->fake);
	}
	return NULL;
}

static void test_sockets_that_open_and_close_do_no_harm(void **state)
{
	pthread_t guest_threads[2];

	params.select_poll = 0;
	flags = 0;
	epfds[0] = epoll_create1(EPOLL_CLOEXEC);
	sets[0] = epoll_create_set(epfds[0]);
	for (int k = 0; k < SOCKETS; k++)
		control(sets[0], EPOLL_CTL_ADD, &socks[k]);
	churning = 1;
	start(guest_threads, 2, churn);
	run(serve);
	__atomic_store_n(&churning, 0, __ATOMIC_RELEASE);
	join(guest_threads, 2);
	epoll_destroy_set(sets[0]);
	sets[0] = NULL;
	close(epfds[0]);
}

/* ---- poll() --------------------------------------------------------------------------- */

static void *poll_all(void *arg)
{
	while (!is_over()) {
		struct pollfd fds[SOCKETS];

		for (int i = 0; i < SOCKETS; i++)
			fds[i] = (struct pollfd){.fd = socks[i].fake.fd, .events = POLLIN};
		assert_true(poll_sockets(fds, SOCKETS, STUCK, NULL, fake_lookup) > 0);
		for (int i = 0; i < SOCKETS; i++) {
			if (fds[i].revents)
				take_all(&socks[i]);
		}
	}
	(void)arg;
	return waiter_ends();
}

static void test_threads_that_poll_lose_nothing(void **state)
{
	for (int poll = 0; poll < 2; poll++) {
		params.select_poll = poll * 50;
		run(poll_all);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_waiters_with_watches_lose_nothing),
	TEST(test_threads_that_share_a_set_lose_nothing),
	TEST(test_exclusive_sets_lose_nothing_together),
	TEST(test_sockets_that_open_and_close_do_no_harm),
	TEST(test_threads_that_poll_lose_nothing),
};

VMA_TEST_MAIN("ready, many threads", tests, NULL, NULL)
