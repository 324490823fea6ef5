/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/sleep.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/busy.h"
#include "base/delay.h"
#include "base/sys.h"
#include "ring/hold.h"
#include "ring/inbox.h"
#include "ring/progress.h"

#define NO_WAKEUP_NAP NSEC_PER_MSEC /* without a descriptor to be woken by */
#define SPINS 200		    /* its holder is through by then, or lost its processor */

/* ---- wakeups ------------------------------------------------------------------------- */

static __thread struct wakeup self __attribute__((tls_model("initial-exec"))) = {.fd = -1};
static __thread struct sleep *current __attribute__((tls_model("initial-exec")));
static pthread_key_t self_key;
static pthread_once_t self_once = PTHREAD_ONCE_INIT;

/* A destructor that runs later may sleep, and have a new one made. */
static void free_self(void *arg)
{
	struct wakeup *wakeup = arg;

	sys_close_fd(&wakeup->fd);
}

static void make_key(void)
{
	pthread_key_create(&self_key, free_self);
}

/* A handler that jumped out of the middle of it would leave the descriptor behind. */
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

	/* Pairs with wakeup_answer(). */
	if (!__atomic_exchange_n(&wakeup->signalled, 1, __ATOMIC_SEQ_CST))
		sys_write(__atomic_load_n(&wakeup->fd, __ATOMIC_RELAXED), &one, sizeof(one));
}

/* From the exchange on it is signalled again; what it was signalled for is looked at after it. */
static void wakeup_answer(struct wakeup *wakeup)
{
	uint64_t count;

	if (!__atomic_load_n(&wakeup->signalled, __ATOMIC_RELAXED))
		return;
	sys_read(wakeup->fd, &count, sizeof(count));
	__atomic_exchange_n(&wakeup->signalled, 0, __ATOMIC_SEQ_CST);
}

/* The program closed it: the next sleep makes another one. */
static void wakeup_forget(struct wakeup *wakeup)
{
	sys_fd_unhide(wakeup->fd);
	__atomic_store_n(&wakeup->fd, -1, __ATOMIC_RELAXED);
}

/* ---- places ------------------------------------------------------------------------- */

void sleep_place_init(struct sleep_place *place, bool relieved)
{
	ck_spinlock_fas_init(&place->lock);
	place->sleepers = 0;
	place->up = 0;
	list_init(&place->own);
	list_init(&place->guests);
	place->busy = false;
	place->relieved = relieved;
}

/*
 * A signal handler that sends, polls and so notifies somebody here would wait for
 * its own thread: it is refused as if that held a ring.
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
	if (!sleeper->lying)
		return;
	sleeper->lying = false;
	if (!sleeper->guest)
		sleeper->place->up++;
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
	} else if (!place->up && !list_empty(&place->own)) {
		/* The last: he has slept least, and is not the leader if he need not be. */
		wake(container_of(place->own.prev, struct sleeper, link));
	}
	sleep_place_unlock(place);
}

/* ---- one sleep ------------------------------------------------------------------------ */

/* pass_on: he may have heard what he does not look at.  True: nobody is left. */
static bool leave(struct sleeper *sleeper, bool pass_on)
{
	struct sleep_place *place = sleeper->place;
	unsigned left;
	bool first;

	/* Its thread's own: what it has left, another thread may have freed. */
	if (!sleeper->in)
		return false;
	sleep_place_lock(place);
	if (!sleeper->in) { /* a signal handler of ours did it just now */
		sleep_place_unlock(place);
		return false;
	}
	first = place->own.next == &sleeper->link;
	list_remove(&sleeper->link);
	left = place->sleepers - 1;
	/* Pairs with progress.c: it sees us gone, or we see that it sleeps without. */
	__atomic_store_n(&place->sleepers, left, __ATOMIC_SEQ_CST);
	if (!sleeper->guest) {
		if (sleeper->lying)
			pass_on = false;
		else
			place->up--;
		/* Whoever is first now takes over the watch. */
		if (first && !list_empty(&place->own))
			wake(container_of(place->own.next, struct sleeper, link));
		else if (pass_on && !place->up && !list_empty(&place->own))
			wake(container_of(place->own.prev, struct sleeper, link));
	}
	sleeper->in = false;
	sleep_place_unlock(place);
	return !left && place->relieved;
}

static void leave_all(struct sleep *sleep, bool pass_on)
{
	bool relieve = false;

	for (struct sleeper *s = sleep->first; s; s = s->next)
		relieve |= leave(s, pass_on);
	if (relieve && __atomic_load_n(&progress_asleep, __ATOMIC_SEQ_CST))
		progress_wake();
}

/* By a signal handler of its thread: it is not to lie down any more. */
static void interrupt(struct sleep *sleep)
{
	sleep->interrupted = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	/* Who is busy with a place, or holds a ring, goes when we return to him. */
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
		interrupt(sleep->outer); /* a handler that did not begin with that */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	current = sleep;
}

void sleep_enter(struct sleep *sleep, struct sleeper *sleeper, struct sleep_place *place,
		 bool guest)
{
	sleeper->place = place;
	sleeper->sleep = sleep;
	sleeper->lying = false;
	sleeper->guest = guest;
	sleeper->in = false;
	sleeper->watch = false;
	sleeper->next = sleep->first;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sleep->first = sleeper;
	sleep_place_lock(place);
	/* It cannot change now: a handler that interrupts us leaves us alone. */
	if (!sleep->interrupted) {
		list_push_back(guest ? &place->guests : &place->own, &sleeper->link);
		if (!guest)
			place->up++;
		/* Pairs with sleep_call(). */
		__atomic_store_n(&place->sleepers, place->sleepers + 1, __ATOMIC_SEQ_CST);
		sleeper->in = true;
	}
	sleep_place_unlock(place);
}

static void lie_down(struct sleeper *sleeper)
{
	struct sleep_place *place = sleeper->place;

	if (!sleeper->in)
		return;
	sleep_place_lock(place);
	if (sleeper->in && !sleeper->lying) {
		sleeper->lying = true;
		if (!sleeper->guest) {
			place->up--;
			sleeper->watch = place->own.next == &sleeper->link;
		}
	}
	sleep_place_unlock(place);
}

static void get_up(struct sleeper *sleeper)
{
	if (!sleeper->in)
		return;
	sleep_place_lock(sleeper->place);
	if (sleeper->in && sleeper->lying) {
		sleeper->lying = false;
		if (!sleeper->guest)
			sleeper->place->up++;
	}
	sleep_place_unlock(sleeper->place);
}

bool sleep_listen(struct sleep *sleep)
{
	/* What it was signalled for until now is looked at after this. */
	wakeup_answer(sleep->wakeup);
	for (struct sleeper *s = sleep->first; s; s = s->next)
		lie_down(s);
	delay_at(DELAY_SLEEP_LISTEN);
	/* From here on the wakeup of a handler that interrupts us ends the sleep. */
	return !sleep->interrupted;
}

/* A cancellation point: nothing but the system call can be torn. */
static int poll_cancellable(struct pollfd *fds, unsigned n, struct timespec *timeout,
			    const sigset_t *mask)
{
	int type, rc;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	rc = sys_ppoll(fds, n, timeout, mask);
	pthread_setcanceltype(type, NULL);
	return rc;
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
	rc = poll_cancellable(fds, n, timeout, mask);
	delay_at(DELAY_SLEEP_WOKEN);
	for (struct sleeper *s = sleep->first; s; s = s->next)
		get_up(s);
	if (rc <= 0 || !fds[0].revents)
		return rc;
	if (fds[0].revents & POLLNVAL)
		wakeup_forget(wakeup);
	return rc - 1;
}

void sleep_end(struct sleep *sleep)
{
	leave_all(sleep, false);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (current != sleep)
		return;
	current = sleep->outer;
	/* Whoever we interrupted shares our wakeup, and we may have answered for him. */
	if (__builtin_expect(current != NULL, 0))
		wakeup_signal(current->wakeup);
}

void sleep_fork_child(void)
{
	/* Of a handler's fork(), which returns into a sleep: it is nowhere, without a trace. */
	for (struct sleep *sleep = current; sleep; sleep = sleep->outer) {
		sleep->interrupted = 1;
		for (struct sleeper *s = sleep->first; s; s = s->next)
			s->in = false;
	}
	self.fd = -1;
	self.signalled = 0;
	current = NULL;
}
