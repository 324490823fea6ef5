/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets without protocol, on rings without port.  They provide what readiness, poll and
 * epoll need of sock.h, and the tests decide which socket becomes ready at which moment.
 *
 * fake_set(): the holder of the ring has received something.  fake_send(): something is on the
 * wire, until a thread polls the ring.  Linked instead of sock.c.
 */
#ifndef TESTS_FAKE_SOCK_H
#define TESTS_FAKE_SOCK_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

#include "ring/progress.h"
#include "ring/ring.h"
#include "sock/core/ready.h"
#include "sock/core/kind.h"
#include "sock/wait/epoll.h"

#include "tests/vma_test.h"

#define FAKE_FDS 4096

struct fake_sock {
	struct sock sk;
	int fd; /* the program's descriptor and the twin: a UDP socket of the kernel */
	bool twin_matters;
	uint32_t on_wire; /* any, atomic: arrives with the next poll of the ring */
};

static struct ring fake_ring;
static uint32_t fake_generation = 1;
static unsigned fake_polls; /* rounds on the ring */
static struct fake_sock *fake_by_fd[FAKE_FDS];
static struct fake_sock *fake_wire[FAKE_FDS];
static unsigned fake_wired;   /* holder */
static unsigned fake_hook_in; /* calls of sock_rings_generation() until fake_hook; 0: never */
static void (*fake_hook)(void);
static void (*fake_rings_hook)(void); /* runs once, when a call asks for the rings of a socket */
static unsigned fake_fetches;	      /* of exported sockets */
static nsec_t fake_patience;	      /* of the last one */
static int fake_fetch_rc;

__thread struct sock_signals sock_signals __attribute__((tls_model("initial-exec")));

/* ---- functions that sock.c provides ---------------------------------------------- */

bool sock_twin_matters(const struct sock *sk)
{
	return ((const struct fake_sock *)(const void *)sk)->twin_matters;
}

uint32_t sock_look_at_twin(struct sock *sk)
{
	struct pollfd pfd = {.fd = sk->twin, .events = POLLIN};

	poll(&pfd, 1, 0);
	__atomic_store_n(&sk->twin_events, pfd.revents & POLLIN ? EPOLLIN : 0, __ATOMIC_RELAXED);
	return sk->twin_events;
}

unsigned sock_rings(const struct sock *sk, struct ring **rings, unsigned max)
{
	struct ring *home = __atomic_load_n(&sk->home, __ATOMIC_ACQUIRE);
	void (*hook)(void) = __atomic_load_n(&fake_rings_hook, __ATOMIC_RELAXED);

	if (hook) { /* set where no other thread runs */
		__atomic_store_n(&fake_rings_hook, NULL, __ATOMIC_RELAXED);
		hook();
	}
	if (!home || !max)
		return 0;
	rings[0] = home;
	return 1;
}

/* A call that waits asks this between any two steps: other threads act there. */
uint32_t sock_rings_generation(void)
{
	if (fake_hook_in && --fake_hook_in == 0)
		fake_hook();
	return __atomic_load_n(&fake_generation, __ATOMIC_ACQUIRE);
}

bool sock_hold(struct sock_ref ref, struct ring **ring)
{
	if (!hold_acquire(&fake_ring.hold, HOLD_YIELD))
		return false;
	if (!sock_ref_valid(ref)) {
		hold_release(&fake_ring.hold, HOLD_YIELD);
		return false;
	}
	*ring = &fake_ring;
	return true;
}

void sock_release(struct ring *ring)
{
	hold_release(&ring->hold, HOLD_YIELD);
}

/* The other process exports the socket at once, unless fake_fetch_rc says otherwise. */
static int fake_fetch(struct sock_ref ref, nsec_t patience)
{
	fake_fetches++;
	fake_patience = patience;
	if (!fake_fetch_rc)
		__atomic_fetch_and(&ref.sk->events, ~SOCK_EXPORTED, __ATOMIC_RELAXED);
	return fake_fetch_rc;
}

static void fake_request(struct sock_ref ref)
{
}

static int fake_nonblock_rc; /* not 0: the socket is gone */

/* As if it had changed in another thread. */
static int fake_nonblock_ask(struct sock_ref ref)
{
	return fake_nonblock_rc ? fake_nonblock_rc : ref.sk->nonblock;
}

const struct sock_upcalls sock_upcalls = {.fetch = fake_fetch,
					  .nonblock_ask = fake_nonblock_ask,
					  .request = fake_request};

/* holder: reports events. */
static void fake_event(struct fake_sock *fake, uint32_t events)
{
	__atomic_store_n(&fake->sk.events, fake->sk.events | events, __ATOMIC_RELEASE);
	ready_notify(&fake->sk, events);
}

int sock_poll_ring(struct ring *ring)
{
	uint64_t count;
	int n = 0;

	if (!hold_acquire(&ring->hold, HOLD_YIELD))
		return 0;
	fake_polls++;
	if (fake_wired && read(ring->fds[0], &count, sizeof(count)) > 0) {
		for (unsigned i = 0; i < fake_wired; i++) {
			fake_event(fake_wire[i], fake_wire[i]->on_wire);
			fake_wire[i]->on_wire = 0;
			n++;
		}
		fake_wired = 0;
	}
	hold_release(&ring->hold, HOLD_YIELD);
	return n;
}

/* ---- functions for tests ---------------------------------------------------------- */

static inline void fake_init(void)
{
	memset(&fake_ring, 0, sizeof(fake_ring));
	hold_init(&fake_ring.hold);
	inbox_init(&fake_ring.inbox);
	sleep_place_init(&fake_ring.sleepers, true);
	fake_ring.fds[0] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	fake_ring.n_fds = 1;
	fake_wired = 0;
	clock_init();
}

static inline void fake_fini(void)
{
	assert_int_equal(sleep_place_used(&fake_ring.sleepers), 0);
	close(fake_ring.fds[0]);
}

static inline void fake_hold(void)
{
	hold_acquire(&fake_ring.hold, HOLD_YIELD);
}

static inline void fake_release(void)
{
	hold_release(&fake_ring.hold, HOLD_YIELD);
}

static inline struct sock_ref fake_ref(const struct fake_sock *fake)
{
	return (struct sock_ref){(struct sock *)(uintptr_t)&fake->sk, fake->sk.gen};
}

/* A kernel socket, bound to a free port of the loopback interface. */
static inline int fake_kernel_socket(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0 && fd < FAKE_FDS);
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	return fd;
}

/* Sends a datagram to fd, for the kernel's part. */
static inline void fake_kernel_send(int fd)
{
	struct sockaddr_in to;
	socklen_t len = sizeof(to);
	int from = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&to, &len), 0);
	assert_int_equal(sendto(from, "x", 1, 0, (struct sockaddr *)&to, len), 1);
	close(from);
}

static inline void fake_kernel_recv(int fd)
{
	char c;

	assert_int_equal(recv(fd, &c, 1, MSG_DONTWAIT), 1);
}

static inline void fake_open(struct fake_sock *fake)
{
	uint32_t gen = fake->sk.gen;

	/* A stale reference may read the generation at any time. */
	memset(&fake->fd, 0, sizeof(*fake) - sizeof(fake->sk));
	__atomic_store_n(&fake->sk.events, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&fake->sk.twin_events, 0, __ATOMIC_RELAXED);
	fake->fd = fake_kernel_socket();
	fake->sk.type = SOCK_TYPE_UDP;
	__atomic_store_n(&fake->sk.home, &fake_ring, __ATOMIC_RELEASE);
	__atomic_store_n(&fake->sk.twin, fake->fd, __ATOMIC_RELAXED);
	list_init(&fake->sk.watches);
	__atomic_store_n(&fake->sk.gen, gen + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&fake_by_fd[fake->fd], fake, __ATOMIC_RELEASE);
}

/* Ends the object: closed, or served by the kernel. */
static inline void fake_end(struct fake_sock *fake)
{
	__atomic_store_n(&fake_by_fd[fake->fd], NULL, __ATOMIC_RELEASE);
	fake_hold();
	epoll_sock_closed(&fake->sk);
	__atomic_store_n(&fake->sk.gen, fake->sk.gen + 1, __ATOMIC_RELEASE);
	fake_release();
}

static inline void fake_close(struct fake_sock *fake)
{
	fake_end(fake);
	close(fake->fd);
}

static inline void fake_set(struct fake_sock *fake, uint32_t events)
{
	fake_hold();
	fake_event(fake, events);
	fake_release();
}

/* As a recv() that reads everything. */
static inline void fake_clear(struct fake_sock *fake, uint32_t events)
{
	fake_hold();
	__atomic_store_n(&fake->sk.events, fake->sk.events & ~events, __ATOMIC_RELEASE);
	fake_release();
}

static inline void fake_send(struct fake_sock *fake, uint32_t events)
{
	uint64_t one = 1;

	fake_hold();
	if (!fake->on_wire)
		fake_wire[fake_wired++] = fake;
	fake->on_wire |= events;
	assert_int_equal(write(fake_ring.fds[0], &one, sizeof(one)), sizeof(one));
	fake_release();
}

static inline struct sock_ref fake_lookup(int fd)
{
	struct fake_sock *fake = NULL;

	if (fd >= 0 && fd < FAKE_FDS)
		fake = __atomic_load_n(&fake_by_fd[fd], __ATOMIC_ACQUIRE);
	return fake ? fake_ref(fake) : (struct sock_ref){NULL, 0};
}

/* ---- time and threads ---------------------------------------------------------------- */

/* Measured with the clock that programs use. */
static inline nsec_t fake_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static inline void fake_pause(nsec_t time)
{
	struct timespec ts = {time / NSEC_PER_SEC, time % NSEC_PER_SEC};

	nanosleep(&ts, NULL);
}

/* Acts on a socket after a delay, in another thread. */
struct fake_later {
	pthread_t thread;
	nsec_t delay;
	void (*fn)(void *arg);
	void *arg;
};

static inline void *fake_later_main(void *arg)
{
	struct fake_later *later = arg;

	fake_pause(later->delay);
	later->fn(later->arg);
	return NULL;
}

static inline void fake_later_start(struct fake_later *later, nsec_t delay, void (*fn)(void *),
				    void *arg)
{
	later->delay = delay;
	later->fn = fn;
	later->arg = arg;
	assert_int_equal(pthread_create(&later->thread, NULL, fake_later_main, later), 0);
}

static inline void fake_later_join(struct fake_later *later)
{
	pthread_join(later->thread, NULL);
}

static inline void fake_set_in(void *fake)
{
	fake_set(fake, EPOLLIN);
}

static inline void fake_send_in(void *fake)
{
	fake_send(fake, EPOLLIN);
}

/* Sleeps at one waiter. */
struct fake_nap {
	struct sleep sleep;
	struct sleeper at;
};

static inline void fake_block(struct fake_nap *nap, struct waiter *waiter)
{
	sleep_begin(&nap->sleep);
	sleep_enter(&nap->sleep, &nap->at, &waiter->sleepers, false);
	assert_true(sleep_listen(&nap->sleep));
}

static inline int fake_sleep(struct fake_nap *nap, struct pollfd *fds, unsigned n, nsec_t deadline)
{
	int rc = sleep_now(&nap->sleep, fds, n, deadline, NULL);

	sleep_end(&nap->sleep);
	return rc;
}

/* Unless something is pending. */
static inline int fake_sleep_at(struct waiter *waiter, nsec_t deadline)
{
	struct pollfd fds[1];
	struct fake_nap nap;

	fake_block(&nap, waiter);
	if (!waiter_pending(waiter))
		return fake_sleep(&nap, fds, 1, deadline);
	sleep_end(&nap.sleep);
	return 0;
}

/* Signals: what the trampoline of intercept does. */
static volatile sig_atomic_t fake_signals;

static inline void fake_handler(int signo)
{
	(void)signo;
	fake_signals++;
	sock_signals.handled++;
	sock_signal_enters();
}

static inline void fake_catch(int signo)
{
	struct sigaction action = {.sa_handler = fake_handler};

	fake_signals = 0;
	sigaction(signo, &action, NULL);
}

/*
 * Sends signals to a thread until it says that its wait is over, because the moment when it
 * begins to wait is unknown. They count as one.
 */
struct fake_interrupter {
	pthread_t target, thread;
	int over; /* any, atomic */
	int sent;
};

static inline void *fake_interrupt_run(void *arg)
{
	struct fake_interrupter *i = arg;

	fake_pause(10 * NSEC_PER_MSEC);
	i->sent = 0;
	do {
		pthread_kill(i->target, SIGUSR1);
		i->sent++;
		fake_pause(20 * NSEC_PER_MSEC);
	} while (!__atomic_load_n(&i->over, __ATOMIC_ACQUIRE) && i->sent < 500);
	return NULL;
}

static inline void fake_interrupt_start(struct fake_interrupter *i)
{
	i->target = pthread_self();
	i->over = 0;
	pthread_create(&i->thread, NULL, fake_interrupt_run, i);
}

static inline void fake_interrupt_stop(struct fake_interrupter *i)
{
	__atomic_store_n(&i->over, 1, __ATOMIC_RELEASE);
	pthread_join(i->thread, NULL);
	fake_pause(0); /* ThreadSanitizer delivers signals late */
	if (fake_signals > 1 && fake_signals <= i->sent)
		fake_signals = 1;
}

#endif
