/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/async.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/mem.h"
#include "base/sys.h"
#include "sock/core/inet_sock.h"
#include "sock/core/ready.h"

/* O_ASYNC of a socket. */
struct async {
	struct watch watch; /* first; without a waiter */
	int fd;		    /* the descriptor that O_ASYNC was set by, for si_fd */
};

#define OWNERS 8

/* A signal that this thread will send. */
struct due {
	struct f_owner_ex owner;
	int signo;
	bool informed; /* F_SETSIG: with a siginfo_t */
	int fd;
	long band;
};

static __thread struct {
	unsigned n;
	struct due to[OWNERS];
} due __attribute__((tls_model("initial-exec")));

/*
 * Only the kernel may send si_code POLL_IN to another thread.  Every process may send
 * SI_SIGIO with the same data; sock_signal_fix() replaces the code at the receiver.
 */
static bool send_informed(const struct due *d)
{
	siginfo_t info = {.si_signo = d->signo, .si_code = SI_SIGIO};

	info.si_fd = d->fd;
	info.si_band = d->band;
	if (d->owner.type == F_OWNER_TID)
		return sys_call(SYS_rt_tgsigqueueinfo, sys_getpid(), d->owner.pid, d->signo, &info,
				0, 0) == 0;
	return d->owner.type == F_OWNER_PID &&
	       sys_call(SYS_rt_sigqueueinfo, d->owner.pid, d->signo, &info, 0, 0, 0) == 0;
}

static void send_plain(const struct due *d)
{
	const struct f_owner_ex *owner = &d->owner;

	if (owner->type == F_OWNER_TID)
		sys_call(SYS_tkill, owner->pid, d->signo, 0, 0, 0, 0);
	else
		sys_call(SYS_kill, owner->type == F_OWNER_PGRP ? -owner->pid : owner->pid, d->signo,
			 0, 0, 0, 0);
}

static void signal_all(void)
{
	/* A copy, because a handler may run and add signals before all of these are sent. */
	struct due to[OWNERS];
	unsigned n = due.n;

	memcpy(to, due.to, n * sizeof(*to));
	/* Orders the copy before the reset: a handler of this thread may come in between. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	due.n = 0;
	for (unsigned i = 0; i < n; i++) {
		if (!to[i].informed || !send_informed(&to[i]))
			send_plain(&to[i]);
	}
}

/* Adds a signal to the owner of the socket; it is sent when the thread holds no ring. */
static void add_due(struct sock *sk, struct due what)
{
	int twin = sock_twin(sk);

	what.owner.type = F_OWNER_PID;
	if (twin < 0 || sys_fcntl(twin, F_GETOWN_EX, (long)&what.owner) || what.owner.pid == 0)
		return;
	if (due.n == OWNERS)
		return; /* so many in one burst are enough */
	due.to[due.n++] = what;
	ring_run_afterwards(signal_all);
}

void async_fork_child(void)
{
	due.n = 0;
}

void async_urgent(struct sock *sk)
{
	add_due(sk, (struct due){.signo = SIGURG});
}

/* ---- O_ASYNC -------------------------------------------------------------------------- */

static const struct {
	uint32_t event;
	int code;
	long band;
} kinds[] = {
	{EPOLLIN, POLL_IN, POLLIN | POLLRDNORM},
	{EPOLLPRI, POLL_PRI, POLLPRI | POLLRDBAND},
	{EPOLLERR, POLL_ERR, POLLERR},
	{EPOLLHUP, POLL_HUP, POLLHUP | POLLERR},
	{EPOLLOUT, POLL_OUT, POLLOUT | POLLWRNORM | POLLWRBAND},
};

void sock_signal_fix(siginfo_t *info)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (info->si_band == kinds[i].band)
			info->si_code = kinds[i].code;
	}
}

static void notify(struct watch *watch, uint32_t events)
{
	struct due what = {.fd = container_of(watch, struct async, watch)->fd};
	long signo = sys_fcntl(sock_twin(watch->sk), F_GETSIG, 0);

	what.signo = signo > 0 ? (int)signo : SIGIO;
	what.informed = signo > 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (events & kinds[i].event) {
			what.band = kinds[i].band;
			add_due(watch->sk, what);
			return;
		}
	}
}

static void free_watch(struct watch *watch)
{
	mem_free(container_of(watch, struct async, watch));
}

static const struct watch_ops async_ops = {.notify = notify, .free = free_watch};

/* holder: the watch of O_ASYNC, or NULL. */
static struct watch *find_watch(struct sock *sk)
{
	list_for_each(link, &sk->watches) {
		struct watch *watch = container_of(link, struct watch, link);

		if (watch->ops == &async_ops)
			return watch;
	}
	return NULL;
}

static struct async *create_async(struct sock *sk, int fd)
{
	struct async *async = mem_alloc(sizeof(*async));

	if (!async)
		return NULL;
	watch_init(&async->watch, NULL, sk, 0);
	async->watch.ops = &async_ops;
	async->fd = fd;
	return async;
}

int sock_set_async(struct sock_ref ref, int fd, bool on)
{
	struct async *spare = on ? create_async(ref.sk, fd) : NULL;
	struct watch *watch;
	struct ring *ring;

	if (on && !spare)
		return -ENOMEM;
	if (!sock_hold(ref, &ring)) {
		mem_free(spare);
		return -EBADF;
	}
	watch = find_watch(ref.sk);
	if (on && !watch) {
		watch_add(&spare->watch);
		spare = NULL;
	} else if (on) {
		container_of(watch, struct async, watch)->fd = fd;
	} else if (watch) {
		watch_remove(watch);
		spare = container_of(watch, struct async, watch);
	}
	sock_release(ring);
	mem_free(spare);
	return 0;
}
