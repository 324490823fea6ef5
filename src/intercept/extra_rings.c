/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors of rings, which the extra API gives to programs.
 *
 * Each is an epoll set of ours: readable while a socket of the ring that the program has asked about is
 * readable, wherever the socket has moved to. So poll(), select() and epoll know it already, and the
 * program may close it. An entry of the table is checked before it is used.
 */
#include <sys/epoll.h>

#include "base/mutex.h"
#include "base/user.h"
#include "intercept/extra.h"
#include "intercept/wrap.h"
#include "sock/core/extra/sock_extra.h"
#include "sock/wait/epoll.h"

struct ring_fd {
	struct sock_ref ref; /* sk NULL: none was made */
	struct epoll *epoll; /* type-stable: a late call finds that it was closed */
	int fd;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ring_fd table[SOCK_RING_NUMBERS]; /* table_lock: by number of the ring */

static bool is_open(const struct ring_fd *r)
{
	struct sock_ref now = r->ref.sk ? fd_get(r->fd) : r->ref;

	return now.sk && now.sk == r->ref.sk && now.gen == r->ref.gen;
}

/* The descriptor of a ring, made at need; fd: -errno. */
static struct ring_fd ring_fd_of(unsigned number)
{
	struct ring_fd *r = &table[number], got;

	mutex_lock(&table_lock);
	if (!is_open(r)) {
		r->ref = epoll_make(&r->fd);
		r->epoll = r->ref.sk ? r->ref.sk->epoll : NULL;
	}
	got = *r;
	mutex_unlock(&table_lock);
	return got;
}

int extra_rings_fds(struct sock_ref ref, int fd, int *fds, unsigned max)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLPRI | EPOLLRDHUP, .data.fd = fd};
	unsigned numbers[EXTRA_RINGS_MAX], n;

	n = sock_ring_numbers(ref.sk, numbers, max < EXTRA_RINGS_MAX ? max : EXTRA_RINGS_MAX);
	for (unsigned i = 0; i < n; i++) {
		struct ring_fd r = ring_fd_of(numbers[i]);
		int rc = r.fd;

		if (rc >= 0)
			rc = epoll_control(r.epoll, EPOLL_CTL_ADD, fd, ref, &event);
		if (rc && rc != -EEXIST && rc != SOCK_KERNEL)
			return rc;
		fds[i] = r.fd;
	}
	return (int)n;
}

int extra_ring_fd(unsigned number)
{
	return ring_fd_of(number).fd;
}

void extra_rings_fork_child(void)
{
	pthread_mutex_init(&table_lock, NULL);
	for (unsigned i = 0; i < SOCK_RING_NUMBERS; i++)
		table[i].ref.sk = NULL;
}
