/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/progress.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include "base/log.h"
#include "base/param.h"
#include "base/image/sections.h"
#include "base/signals.h"
#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "ring/rings.h"

#define AWAY_AFTER (100 * NSEC_PER_USEC) /* a thread that polls a ring polls it more often */
#define PAUSE_MIN (2 * AWAY_AFTER)
#define PAUSE_MAX_TICKS 4
#define REFRESH_INTERVAL (10 * NSEC_PER_SEC) /* between looks at neighbours in use */
#define REFRESH_BATCH 32
#define STACK_SIZE (256 * 1024)
#define SERVICE_FDS 64
#define FDS_MAX (2 + PROGRESS_WATCHED + SERVICE_FDS + RINGS_MAX)

int progress_asleep;
nsec_t progress_sleep_max = NSEC_PER_SEC;

/* internal: what this thread knows of a ring. */
struct look {
	uint32_t polls; /* ring->polls at the last look */
	uint32_t arms;	/* ring->arms at the last visit */
	bool readable;	/* one of its descriptors ended the last sleep */
	/* A frame woke this thread, and another thread took it: no frame does until `paused`. */
	nsec_t pause;
	nsec_t paused;
};

static struct {
	pthread_t thread;
	bool running;
	int stop; /* atomic: progress_start(), progress_stop() write */
	int wake_fd;
	bool (*hook)(void); /* atomic: progress_set_hook() writes */
	struct {
		int fd; /* atomic: progress_watch() writes; the descriptor plus one, 0: none */
		void (*readable)(void); /* set once */
	} watched[PROGRESS_WATCHED];
	struct look looks[RINGS_MAX];
	bool used;     /* internal: progress_note_use() was called since the ring was held */
	nsec_t looked; /* internal: when it last read ->polls of the rings that others poll */
	nsec_t refreshed;
	struct pollfd fds[FDS_MAX];
	unsigned fd_ring[FDS_MAX];	    /* the ring of fds[], or the number in watched[] */
	struct pollfd service[SERVICE_FDS]; /* internal: from rings_service() */
	unsigned n_service;
} progress = {.wake_fd = -1};

EARLY_CODE bool progress_running(void)
{
	return progress.running;
}

void progress_set_hook(bool (*hook)(void))
{
	/* release: pairs with run_hook() */
	__atomic_store_n(&progress.hook, hook, __ATOMIC_RELEASE);
}

void progress_watch(int fd, void (*readable)(void))
{
	unsigned w = 0;

	while (progress.watched[w].readable && progress.watched[w].readable != readable) {
		w++;
		assert(w < PROGRESS_WATCHED);
	}
	progress.watched[w].readable = readable;
	/* release: pairs with sleep_on(), which sees the function if it sees the descriptor */
	__atomic_store_n(&progress.watched[w].fd, fd + 1, __ATOMIC_RELEASE);
	if (progress.running)
		progress_kick(); /* it sleeps on the others only */
}

void progress_wake(void)
{
	uint64_t one = 1;

	/* Pairs with the store of 1 in sleep_long(): one write(2) for each sleep. */
	if (__atomic_exchange_n(&progress_asleep, 0, __ATOMIC_SEQ_CST))
		sys_write(progress.wake_fd, &one, sizeof(one));
}

void progress_kick(void)
{
	uint64_t one = 1;

	sys_write(progress.wake_fd, &one, sizeof(one));
}

void progress_note_use(void)
{
	progress.used = true;
}

/* Polls a ring that no other thread polls.  Returns when its next timer is due. */
static nsec_t visit(struct ring *ring, bool *moved)
{
	int frames = 0, n;
	nsec_t next;

	progress.used = false;
	do {
		n = ring_poll(ring);
		frames += n;
	} while (n > 0 && frames < params.progress_wce_max);
	ring_settle(ring);
	if (frames)
		*moved = true;
	next = wheel_next(&ring->wheel);
	log_finer("internal thread: ring %u: %d frames, next timer in %ld us", ring->id, frames,
		  next == NSEC_NEVER ? -1L : (long)((next - clock_now()) / NSEC_PER_USEC));
	return next;
}

/* A thread of the program polls the ring, or holds it.  Frames that wake us for it are waste. */
static void found_in_use(struct look *look, nsec_t now)
{
	nsec_t longest = PAUSE_MAX_TICKS * params.progress_interval * NSEC_PER_MSEC;

	if (!look->readable)
		return;
	look->pause = look->pause ? 2 * look->pause : PAUSE_MIN;
	if (look->pause > longest)
		look->pause = longest;
	look->paused = now + look->pause;
}

/*
 * One look at every ring.  *moved: another thread uses one of them, or frames arrived.  Returns
 * when the next timer is due.
 */
static nsec_t visit_rings(bool *moved)
{
	unsigned n = rings_count();
	nsec_t next = NSEC_NEVER, now = clock_now();

	progress.looked = now;
	for (unsigned i = 0; i < n; i++) {
		struct ring *ring = rings_at(i);
		struct look *look = &progress.looks[i];
		uint32_t polls = __atomic_load_n(&ring->polls, __ATOMIC_RELAXED);
		bool polled = polls != look->polls && !params.internal_thread_arm_cq;
		nsec_t due;

		look->polls = polls;
		if (polled || !ring_try(ring)) {
			found_in_use(look, now);
			*moved = true;
			continue;
		}
		due = visit(ring, moved);
		/* Before the ring is released: the next holder changes them. */
		look->polls = __atomic_load_n(&ring->polls, __ATOMIC_RELAXED);
		look->arms = __atomic_load_n(&ring->arms, __ATOMIC_RELAXED);
		ring_release_cold(ring);
		if (progress.used) {
			found_in_use(look, now);
			*moved = true;
		} else {
			look->pause = 0;
			look->paused = 0;
		}
		if (due < next)
			next = due;
	}
	return next;
}

/* Did another thread poll a ring, or arm a timer, since visit_rings() looked? */
static bool rings_moved(void)
{
	unsigned n = rings_count();

	for (unsigned i = 0; i < n; i++) {
		const struct ring *ring = rings_at(i);

		if (__atomic_load_n(&ring->polls, __ATOMIC_RELAXED) != progress.looks[i].polls ||
		    __atomic_load_n(&ring->arms, __ATOMIC_RELAXED) != progress.looks[i].arms)
			return true;
	}
	return false;
}

/* The kernel does not see the rings' traffic: tell it which neighbours are in use. */
static void refresh_neighbours(nsec_t now)
{
	struct inaddr addrs[REFRESH_BATCH];

	if (now - progress.refreshed < REFRESH_INTERVAL)
		return;
	progress.refreshed = now;
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);
		int n = 0, ifindex;

		if (!ring_queue(ring) || !ring_try(ring))
			continue;
		ifindex = ring->ifindex;
		for (int b = 0; b < ADJ_BUCKETS; b++) {
			list_for_each(link, &ring->adjs.buckets[b]) {
				struct adj *adj = container_of(link, struct adj, link);

				if (!adj->used || n == REFRESH_BATCH)
					continue;
				adj->used = false;
				addrs[n++] = adj->addr;
			}
		}
		ring_release_cold(ring);
		while (n > 0)
			neigh_use(ifindex, &addrs[--n]);
	}
}

/*
 * Adds the descriptors of all rings whose frames shall end the sleep to fds[n], and shortens
 * *timeout where a pause ends before.  Returns the new n.
 */
static nfds_t add_rings(nfds_t n, nsec_t *timeout)
{
	nsec_t now = clock_now();

	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);
		struct look *look = &progress.looks[i];
		int ring_fd[PORT_FDS_MAX], n_fds = ring_fds(ring, ring_fd);

		look->readable = false;
		/*
		 * Its leader blocks on them; the last sleeper to leave wakes this thread.  The look at the
		 * ring before may have undone what the leader has armed.
		 */
		if (sleep_place_used(&ring->sleepers)) {
			if (!ring_arm_fds(ring))
				*timeout = 0;
			continue;
		}
		if (look->paused > now) {
			if (look->paused - now < *timeout)
				*timeout = look->paused - now;
			continue;
		}
		if (!ring_arm_fds(ring)) {
			look->readable = true;
			*timeout = 0; /* the next round polls it */
		}
		for (int f = 0; f < n_fds && n < FDS_MAX; f++) {
			progress.fd_ring[n] = i;
			progress.fds[n++] = (struct pollfd){.fd = ring_fd[f], .events = POLLIN};
		}
	}
	return n;
}

#define BETWEEN_LOOKS NSEC_PER_MSEC

/*
 * RLIMIT_NOFILE is below n, so that the kernel refuses to poll them together: looks at each one,
 * after a short sleep.
 */
static void poll_each(struct pollfd *fds, nfds_t n, nsec_t timeout)
{
	struct timespec now = {0, 0}, nap = {0, timeout < BETWEEN_LOOKS ? timeout : BETWEEN_LOOKS};

	sys_ppoll(fds, 0, &nap, NULL);
	for (nfds_t at = 0; at < n; at++)
		sys_ppoll(fds + at, 1, &now, NULL);
}

/* Adds the descriptors that are watched; returns the new n. */
static nfds_t add_watched(nfds_t n)
{
	for (unsigned w = 0; w < PROGRESS_WATCHED; w++) {
		/* acquire: pairs with progress_watch() */
		int fd = __atomic_load_n(&progress.watched[w].fd, __ATOMIC_ACQUIRE) - 1;

		if (fd < 0)
			continue;
		progress.fd_ring[n] = w;
		progress.fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
	return n;
}

/* Blocks until there is something to do, for `timeout` at most.  rings: also on rings' frames. */
static void sleep_on(nsec_t timeout, bool rings)
{
	struct timespec ts;
	struct pollfd *fds = progress.fds;
	uint64_t count;
	nfds_t watched, first, end;

	fds[0] = (struct pollfd){.fd = progress.wake_fd, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = netlink_fd(), .events = POLLIN};
	watched = add_watched(2);
	memcpy(fds + watched, progress.service, progress.n_service * sizeof(*fds));
	first = end = watched + progress.n_service;
	if (rings)
		end = add_rings(first, &timeout);
	ts = (struct timespec){timeout / NSEC_PER_SEC, timeout % NSEC_PER_SEC};
	if (sys_ppoll(fds, end, &ts, NULL) == -EINVAL)
		poll_each(fds, end, timeout);
	if (fds[0].revents & POLLIN)
		sys_read(progress.wake_fd, &count, sizeof(count));
	if (fds[1].revents & (POLLIN | POLLERR))
		netlink_process();
	for (nfds_t f = 2; f < watched; f++) {
		if (fds[f].revents & (POLLIN | POLLERR))
			progress.watched[progress.fd_ring[f]].readable();
	}
	for (nfds_t f = first; f < end; f++) {
		if (fds[f].revents)
			progress.looks[progress.fd_ring[f]].readable = true;
	}
}

/*
 * Blocks while threads of the program use rings, for `timeout` at most.  A frame ends that,
 * too: for a ring that nobody has polled for AWAY_AFTER, at once.  Of other rings visit_rings()
 * sees then whether a thread still polls them; it takes the frame then.
 */
static void sleep_beside_others(nsec_t timeout)
{
	bool wait = false;

	sleep_on(timeout, true);
	for (unsigned i = 0; i < rings_count(); i++) {
		struct look *look = &progress.looks[i];
		uint32_t polls = __atomic_load_n(&rings_at(i)->polls, __ATOMIC_RELAXED);

		if (!look->readable)
			continue;
		if (polls != look->polls || clock_now() - progress.looked < AWAY_AFTER)
			wait = true;
		look->polls = polls;
	}
	if (wait)
		sleep_on(AWAY_AFTER, false);
}

/* Nothing moves: block until a frame arrives, a timer is due, or another thread arms one. */
static void sleep_long(nsec_t next)
{
	nsec_t timeout, longest = progress_sleep_max;

	/* Pairs with leave_all() (sleep.c): that sees 1, or sleep_on() sees no sleepers. */
	__atomic_store_n(&progress_asleep, 1, __ATOMIC_SEQ_CST);
	/*
	 * Pairs with ring_arm(): after this, rings_moved() sees ->arms, or ring_arm() sees the
	 * flag.  Without membarrier(2) neither may happen, so this thread looks at every tick.
	 */
	if (sys_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		longest = params.progress_interval * NSEC_PER_MSEC;
	if (!rings_moved()) {
		timeout = next == NSEC_NEVER ? longest : next - clock_now();
		if (timeout > longest)
			timeout = longest;
		if (timeout > 0) {
			log_fine("internal thread: nothing moves, sleeps for %ld us",
				 (long)(timeout / NSEC_PER_USEC));
			sleep_on(timeout, true);
			log_fine("internal thread: woken");
		}
	}
	/* Pairs with the exchange in progress_wake(): from here on it writes nothing. */
	__atomic_store_n(&progress_asleep, 0, __ATOMIC_SEQ_CST);
}

static bool run_hook(void)
{
	/* acquire: pairs with progress_set_hook() */
	bool (*hook)(void) = __atomic_load_n(&progress.hook, __ATOMIC_ACQUIRE);

	return hook && hook();
}

/* A thread enters a cpuset of cgroup v1 by a write of its id. */
static void enter_cpuset(const char *directory)
{
	char path[PATH_MAX], tid[16];
	int fd, len, rc;

	snprintf(path, sizeof(path), "%s/tasks", directory);
	len = snprintf(tid, sizeof(tid), "%d\n", sys_gettid());
	fd = sys_open(path, O_WRONLY | O_CLOEXEC, 0);
	rc = fd < 0 ? fd : (int)sys_write(fd, tid, (size_t)len);
	if (fd >= 0)
		sys_close(fd);
	if (rc < 0)
		log_warn(
			"VMA_INTERNAL_THREAD_CPUSET: %s: %s; the internal thread stays where it is",
			path, strerrordesc_np(-rc));
}

static void *progress_main(void *arg)
{
	nsec_t tick = params.progress_interval * NSEC_PER_MSEC;
	bool arm = params.internal_thread_arm_cq;
	int idle = 0;

	(void)arg;
	ring_thread.internal = true;
	if (params.internal_thread_cpuset[0])
		enter_cpuset(params.internal_thread_cpuset);
	signals_are_never_taken();
	/* AWAY_AFTER is shorter than the default, by which the kernel may prolong a sleep. */
	sys_call(SYS_prctl, PR_SET_TIMERSLACK, NSEC_PER_USEC, 0, 0, 0, 0);
	ports_thread_begins();
	/* acquire: pairs with progress_stop() */
	while (!__atomic_load_n(&progress.stop, __ATOMIC_ACQUIRE)) {
		bool moved = false;
		nsec_t next = NSEC_NEVER, wait;

		if (tick)
			next = visit_rings(&moved);
		refresh_neighbours(clock_now());
		progress.n_service = rings_service(progress.service, SERVICE_FDS);
		if (run_hook()) {
			moved = true;
			next = clock_now();
		}
		idle = moved ? 0 : idle + 1;
		if (!tick) {
			sleep_on(moved ? NSEC_PER_MSEC : progress_sleep_max, false);
		} else if (idle > 2 && !arm) { /* armed, it sleeps while others poll the rings */
			sleep_long(next);
		} else {
			wait = next == NSEC_NEVER ? tick : next - clock_now();
			wait = wait < NSEC_PER_MSEC ? NSEC_PER_MSEC : wait;
			if (wait > tick)
				wait = tick;
			if (arm)
				sleep_on(wait, true);
			else
				sleep_beside_others(wait);
		}
	}
	ports_thread_ends();
	return NULL;
}

/*
 * stack_size: 0 is the default.  bound: to the processors of VMA_INTERNAL_THREAD_AFFINITY.  An
 * error of pthread_create().
 */
static int create_thread(size_t stack_size, bool bound)
{
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	if (stack_size)
		pthread_attr_setstacksize(&attr, stack_size);
	if (bound)
		pthread_attr_setaffinity_np(&attr, sizeof(cpu_set_t),
					    &params.internal_thread_affinity.set);
	rc = pthread_create(&progress.thread, &attr, progress_main, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

/* EINVAL: the stack is too small for the program's static TLS, which the C library puts there. */
static int create_with_any_stack(bool bound)
{
	int rc = create_thread(STACK_SIZE, bound);

	return rc == EINVAL ? create_thread(0, bound) : rc;
}

int progress_start(void)
{
	bool bound = params.internal_thread_affinity.count;
	sigset_t all, old;
	int rc;

	if (progress.running)
		return 0;
	if (progress.wake_fd < 0)
		progress.wake_fd = sys_fd_hide(sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (progress.wake_fd < 0)
		return progress.wake_fd;
	sys_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	sigfillset(&all); /* the program's handlers run on its own threads */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	/* Pairs with pthread_create(), which orders it before the loop in progress_main(). */
	__atomic_store_n(&progress.stop, 0, __ATOMIC_RELEASE);
	rc = create_with_any_stack(bound);
	if (rc == EINVAL && bound) {
		log_warn(
			"VMA_INTERNAL_THREAD_AFFINITY names no processor this process may use; the internal thread runs on any");
		rc = create_with_any_stack(false);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return -rc;
	progress.running = true;
	return 0;
}

void progress_stop(void)
{
	uint64_t one = 1;

	if (!progress.running)
		return;
	/* release: pairs with the loop in progress_main() */
	__atomic_store_n(&progress.stop, 1, __ATOMIC_RELEASE);
	if (ring_thread.internal)
		return;
	sys_write(progress.wake_fd, &one, sizeof(one));
	pthread_join(progress.thread, NULL);
	progress.running = false;
}

void progress_forget(void)
{
	ports_forget();
	progress.running = false;
	progress.hook = NULL;
	memset(progress.watched, 0, sizeof(progress.watched));
	sys_close(progress.wake_fd);
	progress.wake_fd = -1;
}
