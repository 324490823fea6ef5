/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll_wait(2): polls the rings, asks the kernel now and then, and when the time for
 * polling is over sleeps on both.
 */
#include <errno.h>
#include <limits.h>

#include "base/busy.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/sys.h"
#include "sock/wait/epoll_internal.h"
#include "sock/wait/iomux.h"
#include "sock/wait/poll_signals.h"
#include "sock/wait/poll_time.h"
#include "sock/wait/spin.h"

#define EVENTS_MAX (INT_MAX / (int)sizeof(struct epoll_event)) /* the kernel's limit */
#define NESTED_MAX 8	 /* nested sets that a wait sleeps on */
#define LOOK_DEFAULT 100 /* rounds between two looks that must not be omitted */
#define LOOK_RARELY 64	 /* one look of so many is at a set that seems empty */

/* The kernel's descriptors filled this thread's last result: ours come first now. */
static __thread bool ours_next __attribute__((tls_model("initial-exec")));
/* This thread's calls, and its looks at sets that seem empty. */
static __thread unsigned calls __attribute__((tls_model("initial-exec")));
static __thread unsigned idle_looks __attribute__((tls_model("initial-exec")));

/* One call. */
struct wait {
	struct epoll *ep;
	struct epoll_event *events;
	int max;
	nsec_t deadline; /* NSEC_NEVER: none */
	bool left;	 /* not counted in ->users any more */
	struct poll_signals signals;
	struct spin spin;
	/* as of ->version and ->gen */
	uint32_t version, gen;
	int twins;
	struct ring_set rings;
	struct epoll *nested[NESTED_MAX];
	unsigned n_nested;
	struct iomux iomux;
};

/* mutex: counts the call in the set's statistics. */
static inline void count(const struct wait *w, int rc)
{
	struct stats_iomux *stats = w->ep->stats;

	if (!stats)
		return;
	if (__builtin_expect(w->iomux.unusual || rc < 0, 0)) {
		iomux_count(&w->iomux, rc, &stats->now, true);
		return;
	}
	stats_add(&stats->now.our_ready, (unsigned)rc);
	stats_add(&stats->now.hits, 1);
	if (!rc)
		stats_add(&stats->now.timeouts, 1);
}

static void leave_locked(struct wait *w)
{
	struct epoll *ep = w->ep;
	unsigned users = ep->waiter.users - 1;

	w->left = true;
	if (__builtin_expect((int)users < 0, 0))
		users = 0; /* a child of a fork() in the wait, which was not counted there */
	__atomic_store_n(&ep->waiter.users, users, __ATOMIC_RELAXED);
	if (ep->dead && !users)
		epoll_recycle(ep);
}

/* rc: the result of the call. */
static void leave(struct wait *w, int rc)
{
	if (!w->left) {
		epoll_lock_nested(w->ep);
		count(w, rc);
		leave_locked(w);
		epoll_unlock(w->ep);
	}
	poll_signals_end(&w->signals);
}

/* mutex: copies what the rounds need without the mutex.  now: see epoll_follow_rings(). */
static int take_snapshot(struct wait *w, nsec_t now)
{
	struct epoll *ep = w->ep;

	if (ep->dead)
		return -EBADF;
	epoll_follow_rings(ep, now);
	w->version = ep->version;
	w->gen = ep->rings_gen;
	w->twins = ep->twins;
	w->rings.n = ep->rings.n;
	w->rings.beside = ep->rings.beside;
	for (unsigned i = 0; i < ep->rings.n; i++)
		w->rings.rings[i] = ep->rings.rings[i];
	w->n_nested = 0;
	list_for_each(link, &ep->nested) {
		const struct entry *entry = container_of(link, struct entry, nested);

		if (w->n_nested < NESTED_MAX)
			w->nested[w->n_nested++] = entry->set;
	}
	return 0;
}

/* Does it wait for processes of this host, and not for ever? */
static inline void set_beside(struct wait *w)
{
	w->spin.beside = params.select_poll >= 0 && ring_set_is_beside(&w->rings);
}

static int follow(struct wait *w, nsec_t now)
{
	int rc;

	epoll_lock_nested(w->ep);
	rc = take_snapshot(w, now);
	epoll_unlock(w->ep);
	set_beside(w);
	return rc;
}

static bool is_outdated(const struct wait *w)
{
	/* Pairs with whoever changes the set or its rings. */
	return __atomic_load_n(&w->ep->version, __ATOMIC_ACQUIRE) != w->version ||
	       sock_rings_generation() != w->gen;
}

/* Reports our events, beginning with the first; if there are any, it ends the call. */
static int harvest(struct wait *w, int first)
{
	int n;

	epoll_lock_nested(w->ep);
	n = w->ep->dead ? -EBADF : epoll_harvest(w->ep, w->events + first, w->max - first);
	if (n) {
		count(w, n > 0 ? first + n : n);
		leave_locked(w);
	}
	epoll_unlock(w->ep);
	return n;
}

/* ---- looking at the kernel ----------------------------------------------------------- */

/* Removes our own kick from what the kernel reported. */
static int without_kick(const struct epoll *ep, struct epoll_event *events, int n)
{
	int kept = 0;

	if (__atomic_load_n(&ep->kick, __ATOMIC_RELAXED) < 0)
		return n;
	for (int i = 0; i < n; i++) {
		if (events[i].data.ptr != ep)
			events[kept++] = events[i];
	}
	return kept;
}

static int from_kernel(struct wait *w)
{
	int n = sys_epoll_get(w->ep->epfd, w->events, w->max);

	if (n > 0)
		n = without_kick(w->ep, w->events, n);
	if (n > 0) {
		w->iomux.os = n;
		w->iomux.unusual = true;
	}
	if (n > 0 && n < w->max && epoll_is_pending(w->ep)) {
		int more = harvest(w, n);

		n += more > 0 ? more : 0;
	}
	ours_next = n == w->max;
	return n;
}

static bool has_events(struct wait *w)
{
	bool ready;

	if (!epoll_is_pending(w->ep))
		return false;
	epoll_lock_nested(w->ep);
	ready = !w->ep->dead && epoll_has_events(w->ep);
	epoll_unlock(w->ep);
	return ready;
}

/* Events of the kernel's descriptors, then ours as far as there is room; -EINTR. */
static int look(struct wait *w)
{
	struct timespec zero = {0, 0};
	struct pollfd fds[2] = {{.fd = w->ep->epfd, .events = POLLIN},
				{.fd = w->twins, .events = POLLIN}};
	/* ppoll() also admits signals, but ready descriptors precede them, as in the kernel. */
	const sigset_t *mask = w->signals.mask && !has_events(w) ? w->signals.mask : NULL;
	int rc;

	if (w->twins < 0 && !mask)
		return from_kernel(w);
	rc = sys_ppoll(fds, 2, &zero, mask);
	if (rc <= 0)
		return rc;
	if (fds[1].revents) {
		epoll_lock_nested(w->ep);
		epoll_look_at_twins(w->ep);
		epoll_unlock(w->ep);
	}
	return fds[0].revents ? from_kernel(w) : 0;
}

/*
 * Can the kernel have an event?  A descriptor may have been added unnoticed, so the answer
 * is never a certain no.
 */
static bool is_look_useful(const struct wait *w)
{
	return w->twins >= 0 || w->signals.mask || w->n_nested ||
	       __atomic_load_n(&w->ep->kernel_fds, __ATOMIC_RELAXED) ||
	       ++idle_looks % LOOK_RARELY == 0;
}

/* Is it time for a look while polling? */
static bool is_look_due(struct wait *w, unsigned round)
{
	int ratio = params.select_poll_os_ratio;

	if (w->signals.mask && ratio == 0)
		ratio = LOOK_DEFAULT;
	return ratio && (round % (unsigned)ratio == 0 || spin_was_late(&w->spin)) &&
	       is_look_useful(w);
}

/* ---- sleeping ------------------------------------------------------------------------ */

struct nap {
	struct wait *w;
	struct sleeper guests[NESTED_MAX]; /* at nested sets */
	struct rest rest;
};

/* A wait that ends without events wakes another thread for those it may have been told of. */
static void pass_on(struct wait *w)
{
	if (epoll_is_pending(w->ep))
		waiter_wake(&w->ep->waiter);
}

static void cancelled(void *arg)
{
	struct nap *nap = arg;

	rest_end(&nap->rest);
	pass_on(nap->w);
}

/*
 * Before the thread blocks: an event from before is seen here, a later one wakes the
 * thread: by the notifier's push, or by the version that a new socket changes.  So it is with
 * signal handlers, those that were deferred while the set was locked among them.
 */
static bool is_quiet(struct wait *w)
{
	bool quiet = true;

	if (is_outdated(w) || poll_signals_interrupted(&w->signals))
		return false;
	if (epoll_is_pending(w->ep)) {
		/* Events that another thread has taken meanwhile do not end the sleep. */
		epoll_lock_nested(w->ep);
		quiet = !w->ep->dead && !epoll_has_events(w->ep);
		epoll_unlock(w->ep);
	}
	return quiet;
}

/* Only the leader sleeps on the set's own descriptors. */
static void set_fds(struct nap *nap)
{
	bool watch = nap->rest.own.watch;

	nap->rest.fds.fds[1].fd = watch ? nap->w->ep->epfd : -1;
	nap->rest.fds.fds[2].fd = watch ? nap->w->twins : -1;
}

static int sleep_watching(struct nap *nap)
{
	struct wait *w = nap->w;
	int rc = 0;

	while (!rc && sleep_listen(&nap->rest.sleep) && is_quiet(w)) {
		set_fds(nap);
		rc = rest_now(&nap->rest, w->deadline, w->signals.mask);
	}
	if (rc > 0 && (nap->rest.fds.fds[1].revents & POLLNVAL))
		rc = -EBADF; /* the program closed it */
	if (rc == -EINVAL)
		rc = 0; /* more than RLIMIT_NOFILE allows: continues polling */
	return rc < 0 ? rc : 0;
}

/* -EINTR or another error; otherwise it is worth looking again. */
static int sleep_on_all(struct wait *w)
{
	struct nap nap; /* not cleared: it is large */
	struct cleanup undo;
	int rc;

	if (sock_in_callback) { /* as poll_sleep() */
		w->deadline = 0;
		return 0;
	}
	rc = follow(w, NSEC_NEVER);
	if (rc)
		return rc;
	nap.w = w;
	busy_lock(); /* as poll_sleep() */
	if (!rest_begin(&nap.rest, &w->ep->waiter, &w->rings, 2 + w->n_nested * EPOLL_SLEEP_FDS)) {
		busy_unlock();
		sys_sched_yield();
		return 0;
	}
	sleep_fds_add(&nap.rest.fds, -1, POLLIN); /* see set_fds() */
	sleep_fds_add(&nap.rest.fds, -1, POLLIN);
	for (unsigned i = 0; i < w->n_nested; i++)
		epoll_sleep(w->nested[i], &nap.rest, &nap.guests[i]);
	cleanup_push(&undo, cancelled, &nap);
	busy_unlock();
	rc = sleep_watching(&nap);
	busy_lock();
	cleanup_pop(&undo);
	rest_end(&nap.rest);
	if (rc)
		pass_on(w);
	busy_unlock();
	return rc;
}

/* ---- the call -------------------------------------------------------------------------- */

static void cancelled_call(void *arg)
{
	leave(arg, -EINTR);
}

/* VMA_SELECT_SKIP_OS: one of so many calls asks the kernel first. */
static inline __attribute__((always_inline)) int look_first(struct wait *w)
{
	int n = 0;

	if (params.select_skip_os && ++calls % (unsigned)params.select_skip_os == 0 &&
	    is_look_useful(w) && !ours_next)
		n = look(w);
	if (!n)
		ours_next = false;
	return n;
}

/* A call that does not wait: one round, without a clock. */
static int look_once(struct wait *w)
{
	int n = look_first(w);

	if (n)
		return n;
	ring_set_poll(&w->rings);
	if (epoll_is_pending(w->ep))
		n = harvest(w, 0);
	if (n || (params.select_poll && !is_look_useful(w)))
		return n;
	n = look(w);
	/* A twin may have had an event, too. */
	return !n && epoll_is_pending(w->ep) ? harvest(w, 0) : n;
}

static int wait_loop(struct wait *w, nsec_t start)
{
	nsec_t now = start, spin_until = poll_spin_end(start);
	unsigned round = 0;
	int n = look_first(w);

	if (n)
		return n;
	spin_start(&w->spin);
	set_beside(w);
	for (;; now = clock_now()) {
		bool expired = now >= w->deadline,
		     rest = poll_spin_ended(now, spin_until, &w->spin);

		ring_set_poll(&w->rings);
		n = epoll_is_pending(w->ep) ? harvest(w, 0) : 0;
		if (n)
			return n;
		if (rest || expired || is_look_due(w, ++round)) {
			n = look(w);
			/* A twin may have had an event, too. */
			if (!n && epoll_is_pending(w->ep))
				n = harvest(w, 0);
			if (n)
				return n;
		}
		if (expired)
			return 0;
		if (poll_signals_interrupted(&w->signals))
			return -EINTR;
		poll_signals_block(&w->signals);
		if (rest) {
			spin_until = 0; /* do not poll again after the sleep */
			iomux_sleeps(&w->iomux);
			n = sleep_on_all(w);
			iomux_wakes(&w->iomux);
			if (n)
				return n;
		} else {
			spin_round(&w->spin, now);
			n = is_outdated(w) ? follow(w, now) : 0;
			if (n)
				return n;
		}
	}
}

/* ---- sets without accelerated sockets ------------------------------------------------- */

static void leave_plain(void *arg)
{
	struct wait *w = arg;
	struct epoll *ep = w->ep;

	epoll_lock_nested(ep);
	ep->plain_waits--;
	if (ep->kicked && !ep->plain_waits) {
		sys_epoll_set(ep->epfd, EPOLL_CTL_DEL, ep->kick, 0, (epoll_data_t){.ptr = ep});
		ep->kicked = false;
	}
	epoll_unlock(ep);
}

static void cancelled_plain(void *arg)
{
	leave_plain(arg);
}

static int kernel_wait(struct wait *w, nsec_t left)
{
	struct timespec ts = {left / NSEC_PER_SEC, left % NSEC_PER_SEC};
	const sigset_t *mask = w->signals.mask;

	if (left == NSEC_NEVER)
		return (int)sys_call(SYS_epoll_pwait, w->ep->epfd, w->events, w->max, -1, mask, 8);
	if (left % NSEC_PER_MSEC == 0 && left / NSEC_PER_MSEC <= INT_MAX)
		return (int)sys_call(SYS_epoll_pwait, w->ep->epfd, w->events, w->max,
				     left / NSEC_PER_MSEC, mask, 8);
	/* Only a program that called epoll_pwait2() itself has such a timeout. */
	return (int)sys_call(SYS_epoll_pwait2, w->ep->epfd, w->events, w->max, &ts, mask, 8);
}

/* The kernel's call.  -EAGAIN: a socket was added. */
static int plain_wait(struct wait *w, nsec_t timeout)
{
	struct cleanup undo;
	int n, type;

	cleanup_push(&undo, cancelled_plain, w);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	n = kernel_wait(w, timeout);
	pthread_setcanceltype(type, NULL);
	busy_lock(); /* no signal handler jumps between the two */
	cleanup_pop(&undo);
	if (n > 0) {
		n = without_kick(w->ep, w->events, n);
		if (!n)
			n = -EAGAIN; /* the kick only */
	}
	leave_plain(w);
	busy_unlock();
	return n;
}

static int wait_entered(struct wait *w, bool plain, nsec_t start, nsec_t timeout)
{
	int n;

	if (!plain)
		return timeout > 0 ? wait_loop(w, start) : look_once(w);
	n = plain_wait(w, timeout);
	if (n != -EAGAIN)
		return n;
	n = follow(w, NSEC_NEVER);
	return n ? n : wait_loop(w, clock_now());
}

int epoll_wait_set(struct epoll *ep, struct epoll_event *events, int max, nsec_t timeout,
		   const sigset_t *mask)
{
	nsec_t start = timeout > 0 || params.cpu_usage_stats ? clock_now() : 0;
	struct wait w; /* not cleared: it is large */
	struct cleanup undo;
	bool plain;
	int n;

	if (max <= 0 || max > EVENTS_MAX)
		return -EINVAL;
	if (!mem_is_users(events))
		return -EFAULT;
	w.ep = ep;
	w.events = events;
	w.max = max;
	w.deadline = poll_deadline(start, timeout);
	w.left = false;
	iomux_begin(&w.iomux, start);
	/* With a timeout of 0 the kernel admits no signal. */
	poll_signals_begin(&w.signals, timeout ? mask : NULL);
	if (!epoll_lock(ep))
		return -EINTR; /* in a signal handler that interrupted the library */
	plain = !ep->n_entries && !ep->kicked;
	n = ep->dead ? -EBADF : 0;
	if (!n) {
		__atomic_store_n(&ep->waiter.users, ep->waiter.users + 1, __ATOMIC_RELAXED);
		if (plain)
			ep->plain_waits++;
		else
			take_snapshot(&w, start);
		/*
		 * Before the mutex is released: a deferred signal handler may jump out of
		 * that.
		 */
		cleanup_push(&undo, cancelled_call, &w);
	}
	epoll_unlock(ep);
	if (n)
		return n;
	n = wait_entered(&w, plain, start, timeout);
	leave(&w, n); /* before the record goes: a signal handler that jumps then needs it */
	cleanup_pop(&undo);
	return n;
}
