/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/ready.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/delay.h"
#include "base/mem.h"
#include "base/sys.h"
#include "ring/inbox.h"

#define NO_FD_NAP NSEC_PER_MSEC /* without a descriptor to be woken by */

unsigned ready_forks;

void waiter_init(struct waiter *waiter)
{
	ck_stack_init(&waiter->ready);
	waiter->sleeping = 0;
	waiter->signalled = 0;
	waiter->fd = -1;
	waiter->users = 0;
	waiter->forks = ready_forks;
}

void waiter_fini(struct waiter *waiter)
{
	if (waiter->fd >= 0 && waiter->forks == ready_forks)
		sys_close(waiter->fd);
	waiter->fd = -1;
}

/* ---- the waiter of a thread ---------------------------------------------------- */

static __thread struct waiter *self __attribute__((tls_model("initial-exec")));
static pthread_key_t self_key;
static pthread_once_t self_once = PTHREAD_ONCE_INIT;

static void free_self(void *arg)
{
	self = NULL; /* a destructor that runs later may need another one */
	waiter_fini(arg);
	mem_free(arg);
}

static void make_key(void)
{
	pthread_key_create(&self_key, free_self);
}

struct waiter *waiter_self(void)
{
	struct waiter *waiter = self;

	if (waiter)
		return waiter;
	waiter = mem_alloc(sizeof(*waiter));
	if (!waiter)
		return NULL;
	waiter_init(waiter);
	pthread_once(&self_once, make_key);
	pthread_setspecific(self_key, waiter);
	self = waiter;
	return waiter;
}

/* ---- the queue ------------------------------------------------------------------ */

struct watch *waiter_take(struct waiter *waiter)
{
	ck_stack_entry_t *link, *next, *oldest = NULL;

	if (!waiter_pending(waiter))
		return NULL;
	delay_at(DELAY_READY_TAKE);
	link = ck_stack_batch_pop_upmc(&waiter->ready);
	tsan_acquire(waiter); /* pairs with push() */
	for (; link; link = next) {
		next = link->next;
		link->next = oldest;
		oldest = link;
	}
	return (struct watch *)(void *)oldest;
}

struct watch *watch_next(struct watch *watch)
{
	struct watch *next = (struct watch *)(void *)watch->ready_link.next;

	/*
	 * An exchange: what a notifier wrote before it found us queued is
	 * visible after it.  A plain store could be passed by the caller's look
	 * at the events: too old to show the event, and the watch not pushed.
	 */
	if (__atomic_exchange_n(&watch->queued, 0, __ATOMIC_SEQ_CST) & WATCH_GONE)
		watch->gone = true; /* nobody touches it after us */
	return next;
}

void waiter_discard(struct waiter *waiter)
{
	struct watch *watch = waiter_take(waiter);

	while (watch)
		watch = watch_next(watch);
	/*
	 * Still somebody about to sleep here: we are a signal handler that
	 * interrupted him, and may have taken what he was waiting for.
	 */
	waiter_wake(waiter);
}

void waiter_wake(struct waiter *waiter)
{
	uint64_t one = 1;

	/* Pairs with waiter_prepare(): it sees our push or we see it. */
	if (__builtin_expect(__atomic_load_n(&waiter->sleeping, __ATOMIC_SEQ_CST) == 0, 1))
		return;
	/* Pairs with drain(). */
	if (__atomic_exchange_n(&waiter->signalled, 1, __ATOMIC_SEQ_CST))
		return;
	sys_write(__atomic_load_n(&waiter->fd, __ATOMIC_ACQUIRE), &one, sizeof(one));
}

static void push(struct watch *watch)
{
	struct waiter *waiter = watch->waiter;

	delay_at(DELAY_READY_PUSH);
	tsan_release(waiter); /* pairs with waiter_take() */
	ck_stack_push_upmc(&waiter->ready, &watch->ready_link);
	ck_pr_fence_atomic_load();
	waiter_wake(waiter);
}

void watch_push(struct watch *watch)
{
	/* Pairs with watch_next(); whoever pushed it before us wakes the waiter. */
	if (!(__atomic_fetch_or(&watch->queued, WATCH_QUEUED, __ATOMIC_SEQ_CST) & WATCH_QUEUED))
		push(watch);
}

void watch_end(struct watch *watch)
{
	list_remove(&watch->link);
	if (!(__atomic_fetch_or(&watch->queued, WATCH_QUEUED | WATCH_GONE, __ATOMIC_SEQ_CST) &
	      WATCH_QUEUED))
		push(watch);
}

/* ---- sleeping -------------------------------------------------------------------- */

/* Several threads may sleep on one waiter: all of them agree on its descriptor. */
static void make_fd(struct waiter *waiter)
{
	int none = -1, fd;

	if (__builtin_expect(waiter->forks != ready_forks, 0)) {
		waiter->forks = ready_forks; /* the child's only thread */
		waiter->signalled = 0;
		waiter->fd = -1;
	}
	if (__atomic_load_n(&waiter->fd, __ATOMIC_ACQUIRE) >= 0)
		return;
	fd = sys_fd_hide(sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (fd < 0)
		return;
	if (!__atomic_compare_exchange_n(&waiter->fd, &none, fd, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		sys_close(fd);
}

void waiter_prepare(struct waiter *waiter)
{
	make_fd(waiter);
	/* Pairs with waiter_wake(). */
	__atomic_fetch_add(&waiter->sleeping, 1, __ATOMIC_SEQ_CST);
}

void waiter_cancel(struct waiter *waiter)
{
	__atomic_fetch_sub(&waiter->sleeping, 1, __ATOMIC_SEQ_CST);
}

/*
 * From the exchange on, notifiers write again.  One that still found
 * ->signalled set has pushed before, and we look at the queue after.
 */
static void drain(struct waiter *waiter, int fd)
{
	uint64_t count;

	sys_read(fd, &count, sizeof(count));
	__atomic_exchange_n(&waiter->signalled, 0, __ATOMIC_SEQ_CST);
}

bool waiter_drain(struct waiter *waiter)
{
	if (!__atomic_load_n(&waiter->signalled, __ATOMIC_RELAXED))
		return false;
	drain(waiter, __atomic_load_n(&waiter->fd, __ATOMIC_ACQUIRE));
	return true;
}

/* The program closed our descriptor: the next sleep makes another one. */
static void forget_fd(struct waiter *waiter, int fd)
{
	sys_fd_unhide(fd);
	__atomic_compare_exchange_n(&waiter->fd, &fd, -1, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_RELAXED);
	__atomic_exchange_n(&waiter->signalled, 0, __ATOMIC_SEQ_CST);
}

static void sleep_cancelled(void *arg)
{
	waiter_cancel(arg);
}

/* A cancellation point: nothing but the system call can be torn. */
static int poll_cancellable(struct waiter *waiter, struct pollfd *fds, unsigned n,
			    struct timespec *timeout, const sigset_t *mask)
{
	int type, rc;

	pthread_cleanup_push(sleep_cancelled, waiter);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	rc = sys_ppoll(fds, n, timeout, mask);
	pthread_setcanceltype(type, NULL);
	pthread_cleanup_pop(0);
	return rc;
}

int waiter_sleep(struct waiter *waiter, struct pollfd *fds, unsigned n, nsec_t deadline,
		 const sigset_t *mask)
{
	int fd = __atomic_load_n(&waiter->fd, __ATOMIC_ACQUIRE), rc;
	struct timespec ts, *timeout = NULL;

	if (fd < 0 || deadline != NSEC_NEVER) {
		nsec_t left = deadline == NSEC_NEVER ? NSEC_NEVER : deadline - clock_now();

		if (fd < 0 && left > NO_FD_NAP)
			left = NO_FD_NAP;
		if (left < 0)
			left = 0;
		ts = (struct timespec){left / NSEC_PER_SEC, left % NSEC_PER_SEC};
		timeout = &ts;
	}
	fds[0] = (struct pollfd){.fd = fd, .events = POLLIN};
	rc = poll_cancellable(waiter, fds, n, timeout, mask);
	waiter_cancel(waiter);
	if (rc <= 0 || !fds[0].revents)
		return rc;
	if (fds[0].revents & POLLNVAL)
		forget_fd(waiter, fd);
	else
		drain(waiter, fd);
	return rc - 1;
}

/* ---- watches ---------------------------------------------------------------------- */

void watch_init(struct watch *watch, struct waiter *waiter, struct sock *sk, uint32_t events)
{
	list_init(&watch->link);
	watch->waiter = waiter;
	watch->sk = sk;
	watch->events = events;
	watch->queued = 0;
	watch->gone = false;
	watch->of_set = false;
}

void watch_add(struct watch *watch)
{
	list_push_back(&watch->sk->watches, &watch->link);
}

void watch_remove(struct watch *watch)
{
	list_remove(&watch->link);
}

void ready_notify_slow(struct sock *sk, uint32_t events)
{
	struct watch *served = NULL; /* the exclusive one that somebody waits for */

	list_for_each(link, &sk->watches) {
		struct watch *watch = container_of(link, struct watch, link);

		if (!((watch->events | EPOLLERR | EPOLLHUP) & events))
			continue;
		if (watch->events & EPOLLEXCLUSIVE) {
			if (served)
				continue;
			if (__atomic_load_n(&watch->waiter->users, __ATOMIC_RELAXED))
				served = watch;
		}
		watch_push(watch);
	}
	if (served) {
		/* The next event is another set's. */
		list_remove(&served->link);
		list_push_back(&sk->watches, &served->link);
	}
}

void ready_wake_all(struct sock *sk)
{
	list_for_each(link, &sk->watches)
		waiter_wake(container_of(link, struct watch, link)->waiter);
}
