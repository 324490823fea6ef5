/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/sleep.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ring/ring.h"
#include "vma_test.h"

#define MSEC NSEC_PER_MSEC
#define LONG (10 * NSEC_PER_SEC)
#define CROWD 4

static struct sleep_place place, other;

static int setup(void **state)
{
	clock_init();
	sleep_place_init(&place, false);
	sleep_place_init(&other, false);
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(sleep_place_used(&place), 0);
	assert_int_equal(place.awake, 0);
	assert_true(list_empty(&place.own) && list_empty(&place.guests));
	assert_int_equal(sleep_place_used(&other), 0);
	assert_null(hold_current);
	return 0;
}

static void nap(nsec_t time)
{
	struct timespec ts = {time / NSEC_PER_SEC, time % NSEC_PER_SEC};

	nanosleep(&ts, NULL);
}

/* ---- sleepers of one thread, which do not block ---------------------------------------------- */

struct fake_thread {
	struct wakeup wakeup;
	struct sleep sleep;
	struct sleeper at;
};

/* Each sleeper has its own wakeup, although there is one thread. */
static void come(struct fake_thread *p, bool guest)
{
	sleep_begin(&p->sleep);
	sleep_end(&p->sleep);
	p->wakeup = (struct wakeup){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
	p->sleep.wakeup = &p->wakeup;
	sleep_enter(&p->sleep, &p->at, &place, guest);
}

static void block(struct fake_thread *p)
{
	assert_true(sleep_listen(&p->sleep));
}

/* If it was woken, the sleeper now runs, and has answered. */
static bool is_woken(struct fake_thread *p)
{
	bool signalled = p->wakeup.signalled;
	struct pollfd fds[1];
	uint64_t count;

	assert_int_equal(poll(&(struct pollfd){.fd = p->wakeup.fd, .events = POLLIN}, 1, 0),
			 signalled);
	if (signalled) {
		assert_int_equal(sleep_now(&p->sleep, fds, 1, LONG, NULL), 0);
		assert_int_equal(read(p->wakeup.fd, &count, sizeof(count)), sizeof(count));
		p->wakeup.signalled = 0;
	}
	return signalled;
}

static void go(struct fake_thread *p)
{
	sleep_end(&p->sleep);
	close(p->wakeup.fd);
}

static void test_the_first_to_block_leads(void **state)
{
	struct fake_thread a, b;

	come(&a, false);
	come(&b, false);
	assert_int_equal(sleep_place_used(&place), 2);
	block(&b); /* the first to block is not the leader */
	block(&a);
	assert_true(a.at.watch);
	assert_false(b.at.watch);
	go(&a);
	go(&b);
}

static void test_the_lead_passes_to_a_woken_sleeper(void **state)
{
	struct fake_thread p[CROWD];

	for (int i = 0; i < CROWD; i++) {
		come(&p[i], false);
		block(&p[i]);
	}
	for (int i = 0; i + 1 < CROWD; i++) {
		go(&p[i]);
		for (int k = i + 1; k < CROWD; k++)
			assert_int_equal(is_woken(&p[k]), k == i + 1);
		block(&p[i + 1]);
		assert_true(p[i + 1].at.watch);
		assert_false(p[i + 1].wakeup.signalled);
	}
	go(&p[CROWD - 1]);
}

static void test_a_follower_that_leaves_wakes_no_thread(void **state)
{
	struct fake_thread p[3];

	for (int i = 0; i < 3; i++) {
		come(&p[i], false);
		block(&p[i]);
	}
	go(&p[1]);
	assert_false(p[0].wakeup.signalled || p[2].wakeup.signalled);
	go(&p[2]);
	assert_false(p[0].wakeup.signalled);
	go(&p[0]);
}

static void test_the_next_leader_is_not_signalled_while_awake(void **state)
{
	struct fake_thread a, b, c;

	come(&a, false);
	block(&a);
	come(&b, false);
	come(&c, false);
	block(&c);
	go(&a); /* b does not block yet */
	assert_false(b.wakeup.signalled || c.wakeup.signalled);
	/* The leadership does not end with a sleeper that never took it over. */
	go(&b);
	assert_true(is_woken(&c));
	block(&c);
	assert_true(c.at.watch);
	go(&c);
}

static void test_a_call_wakes_one_and_no_more_while_it_runs(void **state)
{
	struct fake_thread p[CROWD];

	for (int i = 0; i < CROWD; i++) {
		come(&p[i], false);
		block(&p[i]);
	}
	sleep_call(&place);
	sleep_call(&place);
	for (int i = 0; i < CROWD; i++)
		assert_int_equal(is_woken(&p[i]), i == CROWD - 1); /* b is not the leader */
	sleep_call(&place);					   /* b checks before it blocks */
	for (int i = 0; i < CROWD; i++)
		assert_false(p[i].wakeup.signalled);
	block(&p[CROWD - 1]);
	sleep_call(&place);
	assert_true(is_woken(&p[CROWD - 1]));
	go(&p[CROWD - 1]);
	sleep_call(&place); /* without it, another sleeper is woken */
	assert_true(is_woken(&p[CROWD - 2]));
	for (int i = 0; i < CROWD - 1; i++)
		go(&p[i]);
	sleep_call(&place); /* no sleeper */
}

static void test_guests_are_woken_by_every_call_and_never_lead(void **state)
{
	struct fake_thread guests[2], a, b;

	for (int i = 0; i < 2; i++) {
		come(&guests[i], true);
		block(&guests[i]);
		assert_false(guests[i].at.watch);
	}
	come(&a, false);
	come(&b, false);
	block(&a);
	block(&b);
	assert_true(a.at.watch);
	sleep_call(&place);
	assert_true(is_woken(&guests[0]) && is_woken(&guests[1]));
	assert_true(is_woken(&b));
	assert_false(a.wakeup.signalled);
	go(&guests[0]);
	go(&a);
	go(&b); /* a guest does not become the leader */
	assert_false(guests[1].wakeup.signalled);
	go(&guests[1]);
}

static void test_every_sleeper_can_be_called(void **state)
{
	struct fake_thread p[CROWD];

	for (int i = 0; i < CROWD; i++) {
		come(&p[i], i == 0);
		block(&p[i]);
	}
	sleep_call_all(&place);
	for (int i = 0; i < CROWD; i++)
		assert_true(is_woken(&p[i]));
	for (int i = 0; i < CROWD; i++)
		go(&p[i]);
}

static void test_one_sleep_is_at_many_places(void **state)
{
	struct sleeper here, there;
	struct sleep sleep;
	struct fake_thread a;

	come(&a, false);
	block(&a);
	sleep_begin(&sleep);
	sleep_enter(&sleep, &here, &place, false);
	sleep_enter(&sleep, &there, &other, false);
	assert_true(sleep_listen(&sleep));
	assert_false(here.watch);
	assert_true(there.watch);
	assert_int_equal(sleep_place_used(&other), 1);
	sleep_end(&sleep);
	sleep_end(&sleep); /* harmless */
	assert_int_equal(sleep_place_used(&place), 1);
	go(&a);
}

/* ---- threads that block ---------------------------------------------------------------------- */

static int sleep_at(struct sleep_place *at, nsec_t time)
{
	struct sleeper sleeper;
	struct pollfd fds[1];
	struct sleep sleep;
	int rc;

	sleep_begin(&sleep);
	sleep_enter(&sleep, &sleeper, at, false);
	assert_true(sleep_listen(&sleep));
	rc = sleep_now(&sleep, fds, 1, clock_now() + time, NULL);
	sleep_end(&sleep);
	return rc;
}

static void test_a_call_between_listening_and_sleeping_is_not_slept_through(void **state)
{
	struct sleeper sleeper;
	struct pollfd fds[1];
	struct sleep sleep;
	nsec_t start = clock_now();

	sleep_begin(&sleep);
	sleep_enter(&sleep, &sleeper, &place, false);
	assert_true(sleep_listen(&sleep));
	sleep_call(&place);
	assert_int_equal(sleep_now(&sleep, fds, 1, start + LONG, NULL), 0);
	assert_true(clock_now() - start < LONG / 2);
	sleep_end(&sleep);
	/* And the effect ends with that: the next sleep has its full length. */
	start = clock_now();
	assert_int_equal(sleep_at(&place, 20 * MSEC), 0);
	assert_true(clock_now() - start >= 19 * MSEC);
}

static void *sleep_long(void *arg)
{
	assert_int_equal(sleep_at(arg, LONG), 0);
	return NULL;
}

static void test_the_lead_passes_to_a_thread_that_sleeps(void **state)
{
	nsec_t start = clock_now();
	struct fake_thread a;
	pthread_t thread;

	come(&a, false);
	block(&a);
	assert_int_equal(pthread_create(&thread, NULL, sleep_long, &place), 0);
	while (sleep_place_used(&place) < 2)
		nap(MSEC);
	nap(10 * MSEC);
	go(&a);
	pthread_join(thread, NULL);
	assert_true(clock_now() - start < LONG / 2);
}

static void end(void *sleep)
{
	sleep_end(sleep);
}

static void *sleep_cancelled(void *arg)
{
	struct sleeper sleeper;
	struct pollfd fds[1];
	struct sleep sleep;

	sleep_begin(&sleep);
	sleep_enter(&sleep, &sleeper, arg, false);
	assert_true(sleep_listen(&sleep));
	pthread_cleanup_push(end, &sleep);
	sleep_now(&sleep, fds, 1, NSEC_NEVER, NULL);
	pthread_cleanup_pop(1);
	return NULL;
}

static void test_a_cancelled_thread_passes_the_lead_on(void **state)
{
	for (int i = 0; i < 10; i++) {
		struct fake_thread successor;
		pthread_t thread;
		void *result;

		assert_int_equal(pthread_create(&thread, NULL, sleep_cancelled, &place), 0);
		while (!sleep_place_used(&place))
			nap(MSEC / 10);
		come(&successor, false);
		block(&successor);
		assert_false(successor.at.watch);
		nap(i * MSEC / 10);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		assert_true(is_woken(&successor));
		block(&successor);
		assert_true(successor.at.watch);
		go(&successor);
	}
}

static void test_a_wakeup_that_the_program_closed_is_replaced(void **state)
{
	nsec_t start = clock_now();
	struct sleep sleep;
	pthread_t thread;

	sleep_begin(&sleep);
	close(sleep.wakeup->fd);
	sleep_end(&sleep);
	assert_int_equal(sleep_at(&place, LONG), 0); /* notices */
	assert_true(clock_now() - start < LONG / 2);
	/* From now on it works again. */
	{
		struct fake_thread a;

		come(&a, false);
		block(&a);
		assert_int_equal(pthread_create(&thread, NULL, sleep_long, &place), 0);
		while (sleep_place_used(&place) < 2)
			nap(MSEC);
		go(&a);
		pthread_join(thread, NULL);
	}
	assert_true(clock_now() - start < LONG / 2);
}

static void *tell_wakeup(void *arg)
{
	struct sleep sleep;

	sleep_begin(&sleep);
	*(int *)arg = sleep.wakeup->fd;
	sleep_end(&sleep);
	return NULL;
}

static void test_a_thread_that_exits_frees_its_wakeup(void **state)
{
	pthread_t thread;
	int fd = -1;

	assert_int_equal(pthread_create(&thread, NULL, tell_wakeup, &fd), 0);
	pthread_join(thread, NULL);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* ---- signals ---------------------------------------------------------------------------- */

static struct fake_thread *successor;
static bool successor_was_woken, nested;
static int handled;
static bool refused;

static void handle(int sig)
{
	handled++;
	sleep_interrupted();
	if (successor)
		successor_was_woken = successor->wakeup.signalled;
	if (nested)
		assert_int_equal(sleep_at(&other, 5 * MSEC), 0);
}

static void catch (void (*fn)(int sig))
{
	struct sigaction action = {.sa_handler = fn};

	handled = 0;
	successor = NULL;
	nested = false;
	sigaction(SIGUSR1, &action, NULL);
}

struct target {
	pthread_t thread;
	int tid;
};

/* Does the thread sleep in ppoll(2)? */
static bool is_in_ppoll(int tid)
{
	char path[64];
	FILE *file;
	long call = -1;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%ld", &call) != 1)
		call = -1; /* "running" */
	if (file)
		fclose(file);
	return call == SYS_ppoll;
}

static void *interrupt_its_sleep(void *arg)
{
	const struct target *target = arg;

	while (!is_in_ppoll(target->tid))
		nap(MSEC);
	pthread_kill(target->thread, SIGUSR1);
	return NULL;
}

/* A handler may run for long: the other threads must not depend on its thread meanwhile. */
static void test_the_lead_passes_on_before_a_handler_runs(void **state)
{
	struct target self = {pthread_self(), gettid()};
	struct sleeper sleeper;
	struct pollfd fds[1];
	struct sleep sleep;
	struct fake_thread p;
	pthread_t thread;

	catch (handle);
	sleep_begin(&sleep);
	sleep_enter(&sleep, &sleeper, &place, false);
	/* Another sleeper of the same thread enters and leaves meanwhile. */
	p.wakeup = (struct wakeup){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
	p.sleep = (struct sleep){.wakeup = &p.wakeup};
	sleep_enter(&p.sleep, &p.at, &place, false);
	block(&p);
	successor = &p;
	assert_true(sleep_listen(&sleep));
	assert_true(sleeper.watch);
	assert_int_equal(pthread_create(&thread, NULL, interrupt_its_sleep, &self), 0);
	assert_int_equal(sleep_now(&sleep, fds, 1, clock_now() + LONG, NULL), -EINTR);
	pthread_join(thread, NULL);
	assert_int_equal(handled, 1);
	assert_true(successor_was_woken);
	assert_int_equal(sleep_place_used(&place), 1);
	assert_false(sleep_listen(&sleep)); /* it is at no place: it must not sleep */
	sleep_end(&sleep);
	assert_int_equal(sleep_place_used(&place), 1);
	block(&p);
	assert_true(p.at.watch);
	go(&p);
}

/* The signal comes at every moment before the system call. */
static void test_a_signal_before_the_sleep_ends_it(void **state)
{
	for (int moment = 0; moment < 3; moment++) {
		for (int with = 0; with < 2; with++) {
			nsec_t start = clock_now();
			struct sleeper sleeper;
			struct pollfd fds[1];
			struct sleep sleep;
			bool listens;

			catch (handle);
			nested = with;
			sleep_begin(&sleep);
			if (moment == 0)
				raise(SIGUSR1);
			sleep_enter(&sleep, &sleeper, &place, false);
			if (moment == 1)
				raise(SIGUSR1);
			listens = sleep_listen(&sleep);
			assert_int_equal(listens, moment == 2);
			if (moment == 2) {
				raise(SIGUSR1);
				assert_int_equal(sleep_now(&sleep, fds, 1, start + LONG, NULL), 0);
			}
			assert_int_equal(sleep_place_used(&place), 0);
			sleep_end(&sleep);
			assert_int_equal(handled, 1);
			assert_true(clock_now() - start < LONG / 2);
		}
	}
}

static void try_ring(int sig)
{
	static struct hold hold;

	handled++;
	hold_init(&hold);
	refused = !hold_acquire(&hold, HOLD_SPIN);
	sleep_interrupted(); /* harmless */
}

/* The handler might need the lock of the place, which its own thread has. */
static void test_a_handler_is_refused_while_its_thread_is_at_a_places_lock(void **state)
{
	catch (try_ring);
	sleep_place_lock(&place);
	raise(SIGUSR1);
	sleep_place_unlock(&place);
	assert_int_equal(handled, 1);
	assert_true(refused);
	raise(SIGUSR1);
	assert_false(refused);
	hold_current = NULL; /* try_ring() acquired it */
}

/* Otherwise the call would miss the signal: it checks for signals only before it sleeps. */
static void test_a_handler_that_was_refused_ends_the_sleep_all_the_same(void **state)
{
	struct sleeper sleeper;
	struct sleep sleep;

	catch (try_ring);
	sleep_begin(&sleep);
	sleep_enter(&sleep, &sleeper, &place, false);
	sleep_place_lock(&other);
	raise(SIGUSR1);
	sleep_place_unlock(&other);
	assert_true(refused);
	assert_int_equal(sleep_place_used(&place), 1);
	assert_false(sleep_listen(&sleep));
	sleep_end(&sleep);
	assert_int_equal(sleep_place_used(&place), 0);
}

static void test_a_forked_child_is_nowhere_with_a_wakeup_of_its_own(void **state)
{
	struct sleeper sleeper;
	struct sleep sleep;
	struct fake_thread a;
	int before;

	sleep_begin(&sleep);
	before = sleep.wakeup->fd;
	sleep_enter(&sleep, &sleeper, &other, false);
	sleep_fork_child();
	assert_false(sleep_listen(&sleep));
	sleep_place_init(&other, false); /* the owner does that */
	sleep_end(&sleep);
	sleep_begin(&sleep);
	assert_int_not_equal(sleep.wakeup->fd, before);
	sleep_end(&sleep);
	close(before);
	come(&a, false);
	block(&a);
	go(&a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_the_first_to_block_leads),
	TEST(test_the_lead_passes_to_a_woken_sleeper),
	TEST(test_a_follower_that_leaves_wakes_no_thread),
	TEST(test_the_next_leader_is_not_signalled_while_awake),
	TEST(test_a_call_wakes_one_and_no_more_while_it_runs),
	TEST(test_guests_are_woken_by_every_call_and_never_lead),
	TEST(test_every_sleeper_can_be_called),
	TEST(test_one_sleep_is_at_many_places),
	TEST(test_a_call_between_listening_and_sleeping_is_not_slept_through),
	TEST(test_the_lead_passes_to_a_thread_that_sleeps),
	TEST(test_a_cancelled_thread_passes_the_lead_on),
	TEST(test_a_wakeup_that_the_program_closed_is_replaced),
	TEST(test_a_thread_that_exits_frees_its_wakeup),
	TEST(test_the_lead_passes_on_before_a_handler_runs),
	TEST(test_a_signal_before_the_sleep_ends_it),
	TEST(test_a_handler_is_refused_while_its_thread_is_at_a_places_lock),
	TEST(test_a_handler_that_was_refused_ends_the_sleep_all_the_same),
	TEST(test_a_forked_child_is_nowhere_with_a_wakeup_of_its_own),
};

VMA_TEST_MAIN("sleep", tests, NULL, NULL)
