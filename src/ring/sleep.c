/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/sleep.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/busy.h"
#include "base/delay.h"
#include "base/image/sections.h"
#include "base/stats/recorder.h"
#include "base/sys.h"
#include "ring/hold.h"
#include "ring/inbox.h"
#include "ring/progress.h"

#define NO_WAKEUP_NAP NSEC_PER_MSEC /* longest ppoll(2) of a thread that has no wakeup descriptor */
#define SPINS 200		    /* then the holder of a place's lock lost its processor */

/* ---- wakeups ------------------------------------------------------------------------- */

static __thread struct wakeup self __attribute__((tls_model("initial-exec"))) = {.fd = -1};
static __thread struct sleep *current __attribute__((tls_model("initial-exec")));
static pthread_key_t self_key;
static pthread_once_t self_once = PTHREAD_ONCE_INIT;

/* Destructors that run later may sleep; then sleep_begin() makes a new descriptor. */
static void free_self(void *arg)
{
	struct wakeup *wakeup = arg;

	sys_close_fd(&wakeup->fd);
}

static void make_key(void)
{
	pthread_key_create(&self_key, free_self);
}

/* Busy: a signal handler that jumped out of this function would leak the descriptor. */
static __attribute__((noinline, cold)) void make_fd(struct wakeup *wakeup)
{
	bool busy = busy_begin();
	int fd = sys_fd_hide(sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));

	if (fd >= 0) {
		pthread_once(&self_once, make_key);
		pthread_setspecific(self_key, wakeup);
		wakeup->fd = fd;
		__atomic_store_n(&wakeup->signalled, 0, __ATOMIC_RELAXED);
	}
	busy_end(busy);
}

static void wakeup_signal(struct wakeup *wakeup)
{
	uint64_t one = 1;

	/* Pairs with the exchange in wakeup_answer(): one write(2) until that. */
	if (!__atomic_exchange_n(&wakeup->signalled, 1, __ATOMIC_SEQ_CST))
		sys_write(__atomic_load_n(&wakeup->fd, __ATOMIC_RELAXED), &one, sizeof(one));
}

/* From the exchange on a signal writes again; the caller then looks for what it was for. */
static void wakeup_answer(struct wakeup *wakeup)
{
	uint64_t count;

	if (!__atomic_load_n(&wakeup->signalled, __ATOMIC_RELAXED))
		return;
	sys_read(wakeup->fd, &count, sizeof(count));
	/* Pairs with the exchange in wakeup_signal(): what its caller wrote before is visible. */
	__atomic_exchange_n(&wakeup->signalled, 0, __ATOMIC_SEQ_CST);
}

/* The program closed the descriptor: the next sleep makes another one. */
static void wakeup_forget(struct wakeup *wakeup)
{
	sys_fd_unhide(wakeup->fd);
	__atomic_store_n(&wakeup->fd, -1, __ATOMIC_RELAXED);
}

/* ---- places ------------------------------------------------------------------------- */

EARLY_CODE void sleep_place_init(struct sleep_place *place, bool wake_internal)
{
	ck_spinlock_fas_init(&place->lock);
	place->sleepers = 0;
	place->awake = 0;
	list_init(&place->own);
	list_init(&place->guests);
	place->busy = false;
	place->wake_internal = wake_internal;
	place->ring = RECORDER_NO_RING;
	place->requests = 0;
	place->received = 0;
}

/*
 * Busy: a signal handler that sends or polls may notify a sleeper here and would wait for the
 * lock of its own thread.  It is refused as if its thread held a ring.
 */
void sleep_place_lock(struct sleep_place *place)
{
	bool busy = busy_begin();

	if (!ck_spinlock_fas_trylock(&place->lock))
		hold_lock_slow(&place->lock, SPINS);
	place->busy = busy;
}

void sleep_place_unlock(struct sleep_place *place)
{
	bool busy = place->busy;

	ck_spinlock_fas_unlock(&place->lock);
	busy_end(busy);
}

/* lock */
static void wake(struct sleeper *sleeper)
{
	if (!sleeper->blocked)
		return;
	sleeper->blocked = false;
	if (!sleeper->guest)
		sleeper->place->awake++;
	wakeup_signal(sleeper->sleep->wakeup);
}

void sleep_call_slow(struct sleep_place *place, bool all)
{
	delay_at(DELAY_SLEEP_CALL);
	sleep_place_lock(place);
	list_for_each(link, &place->guests)
		wake(container_of(link, struct sleeper, link));
	if (all) {
		list_for_each(link, &place->own)
			wake(container_of(link, struct sleeper, link));
	} else if (!place->awake && !list_empty(&place->own)) {
		/* The last one slept least, and is not the leader unless it is alone. */
		wake(container_of(place->own.prev, struct sleeper, link));
	}
	sleep_place_unlock(place);
}

/* ---- one sleep ------------------------------------------------------------------------ */

/*
 * pass_on: it may have been called and will not look, so another sleeper does.  True: the last
 * sleeper left, and the internal thread takes over.
 */
static bool leave_place(struct sleeper *sleeper, bool pass_on)
{
	struct sleep_place *place = sleeper->place;
	unsigned left;
	bool first;

	/* Before the lock: once it has left, another thread may have freed the place. */
	if (!sleeper->in)
		return false;
	sleep_place_lock(place);
	if (!sleeper->in) { /* a signal handler of this thread did it just now */
		sleep_place_unlock(place);
		return false;
	}
	first = place->own.next == &sleeper->link;
	list_remove(&sleeper->link);
	left = place->sleepers - 1;
	/* Pairs with sleep_long() (progress.c): that sees 0, or leave_all() sees progress_asleep. */
	__atomic_store_n(&place->sleepers, left, __ATOMIC_SEQ_CST);
	if (!sleeper->guest) {
		if (sleeper->blocked)
			pass_on = false;
		else
			place->awake--;
		/* The first one now becomes the leader. */
		if (first && !list_empty(&place->own))
			wake(container_of(place->own.next, struct sleeper, link));
		else if (pass_on && !place->awake && !list_empty(&place->own))
			wake(container_of(place->own.prev, struct sleeper, link));
	}
	sleeper->in = false;
	sleep_place_unlock(place);
	return !left && place->wake_internal;
}

static void leave_all(struct sleep *sleep, bool pass_on)
{
	bool wake_internal = false;

	for (struct sleeper *s = sleep->first; s; s = s->next)
		wake_internal |= leave_place(s, pass_on);
	/* Pairs with the store of 1 in sleep_long() (progress.c), see leave_place(). */
	if (wake_internal && __atomic_load_n(&progress_asleep, __ATOMIC_SEQ_CST))
		progress_wake();
}

/* In a signal handler of its thread: the thread must not block in this sleep any more. */
static void interrupt(struct sleep *sleep)
{
	sleep->interrupted = 1;
	/* Orders it first: a signal handler that interrupts this one finds it set. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	/* A thread that has a place's lock or holds a ring leaves when the handler returns. */
	if (hold_current)
		return;
	leave_all(sleep, true);
	wakeup_signal(sleep->wakeup);
}

void sleep_interrupted(void)
{
	if (current)
		interrupt(current);
}

void sleep_begin(struct sleep *sleep)
{
	sleep->wakeup = &self;
	if (self.fd < 0)
		make_fd(&self);
	sleep->first = NULL;
	sleep->interrupted = 0;
	sleep->outer = current;
	if (__builtin_expect(sleep->outer != NULL, 0))
		interrupt(sleep->outer); /* this handler did not call sleep_interrupted() */
	/* Orders it first: a signal handler finds the sleep initialised. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	current = sleep;
}

void sleep_enter(struct sleep *sleep, struct sleeper *sleeper, struct sleep_place *place,
		 bool guest)
{
	sleeper->place = place;
	sleeper->sleep = sleep;
	sleeper->blocked = false;
	sleeper->guest = guest;
	sleeper->in = false;
	sleeper->watch = false;
	sleeper->next = sleep->first;
	/* Orders it first: a signal handler finds the sleeper initialised. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sleep->first = sleeper;
	sleep_place_lock(place);
	/* Under the lock a signal handler does not change the places of this thread. */
	if (!sleep->interrupted) {
		list_push_back(guest ? &place->guests : &place->own, &sleeper->link);
		if (!guest)
			place->awake++;
		/* Pairs with the loads in sleep_call() and sleep_call_all(). */
		__atomic_store_n(&place->sleepers, place->sleepers + 1, __ATOMIC_SEQ_CST);
		sleeper->in = true;
	}
	sleep_place_unlock(place);
}

static void block_at_place(struct sleeper *sleeper)
{
	struct sleep_place *place = sleeper->place;

	if (!sleeper->in)
		return;
	sleep_place_lock(place);
	if (sleeper->in && !sleeper->blocked) {
		sleeper->blocked = true;
		if (!sleeper->guest) {
			place->awake--;
			sleeper->watch = place->own.next == &sleeper->link;
		}
	}
	sleep_place_unlock(place);
}

static void unblock_at_place(struct sleeper *sleeper)
{
	if (!sleeper->in)
		return;
	sleep_place_lock(sleeper->place);
	if (sleeper->in && sleeper->blocked) {
		sleeper->blocked = false;
		if (!sleeper->guest)
			sleeper->place->awake++;
	}
	sleep_place_unlock(sleeper->place);
}

bool sleep_listen(struct sleep *sleep)
{
	/* The caller looks for news after this, so signals until now need no answer. */
	wakeup_answer(sleep->wakeup);
	for (struct sleeper *s = sleep->first; s; s = s->next)
		block_at_place(s);
	delay_at(DELAY_SLEEP_LISTEN);
	/* A signal handler from here on signals the wakeup, which ends the sleep. */
	return !sleep->interrupted;
}

/* A cancellation point: the thread can be cancelled in the system call and nowhere else. */
static int poll_cancellable(struct pollfd *fds, unsigned n, struct timespec *timeout,
			    const sigset_t *mask)
{
	int type, rc;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	rc = sys_ppoll(fds, n, timeout, mask);
	pthread_setcanceltype(type, NULL);
	return rc;
}

/* The ring at which the thread sleeps, if it is one alone. */
static uint32_t ring_of(const struct sleep *sleep)
{
	const struct sleeper *s = sleep->first;

	return s && !s->next ? s->place->ring : RECORDER_NO_RING;
}

/* The thread blocks (received: blocked) on the descriptors of the rings that it leads. */
static void count_sleep(const struct sleep *sleep, bool received)
{
	for (const struct sleeper *s = sleep->first; s; s = s->next) {
		if (s->watch && s->place->ring != RECORDER_NO_RING)
			__atomic_fetch_add(received ? &s->place->received : &s->place->requests, 1,
					   __ATOMIC_RELAXED);
	}
}

int sleep_now(struct sleep *sleep, struct pollfd *fds, unsigned n, nsec_t deadline,
	      const sigset_t *mask)
{
	struct wakeup *wakeup = sleep->wakeup;
	struct timespec ts, *timeout = NULL;
	int rc;

	if (wakeup->fd < 0 || deadline != NSEC_NEVER) {
		nsec_t left = deadline == NSEC_NEVER ? NSEC_NEVER : deadline - clock_now();

		if (wakeup->fd < 0 && left > NO_WAKEUP_NAP)
			left = NO_WAKEUP_NAP;
		if (left < 0)
			left = 0;
		ts = (struct timespec){left / NSEC_PER_SEC, left % NSEC_PER_SEC};
		timeout = &ts;
	}
	fds[0] = (struct pollfd){.fd = wakeup->fd, .events = POLLIN};
	delay_at(DELAY_SLEEP_NOW);
	count_sleep(sleep, false);
	recorder_write_any(RECORDER_SLEEPS, RECORD_SLEEP, 0, ring_of(sleep));
	rc = poll_cancellable(fds, n, timeout, mask);
	delay_at(DELAY_SLEEP_WOKEN);
	recorder_write_any(RECORDER_SLEEPS, RECORD_WAKE, 0, ring_of(sleep));
	if (rc > (fds[0].revents != 0))
		count_sleep(sleep, true);
	for (struct sleeper *s = sleep->first; s; s = s->next)
		unblock_at_place(s);
	if (rc <= 0 || !fds[0].revents)
		return rc;
	if (fds[0].revents & POLLNVAL)
		wakeup_forget(wakeup);
	return rc - 1;
}

void sleep_end(struct sleep *sleep)
{
	leave_all(sleep, false);
	/* Orders it last: until here a signal handler finds this sleep in `current`. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (current != sleep)
		return;
	current = sleep->outer;
	/* The interrupted sleep has the same wakeup, and we may have answered its signal. */
	if (__builtin_expect(current != NULL, 0))
		wakeup_signal(current->wakeup);
}

void sleep_fork_child(void)
{
	/* A handler forked and may return into a sleep: that one is at no place, left no links. */
	for (struct sleep *sleep = current; sleep; sleep = sleep->outer) {
		sleep->interrupted = 1;
		for (struct sleeper *s = sleep->first; s; s = s->next)
			s->in = false;
	}
	self.fd = -1;
	self.signalled = 0;
	current = NULL;
}
