/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors of rings, which the extra API gives to programs.
 *
 * Each is an epoll set of ours: readable while a socket of the ring that the program has asked about is
 * readable, wherever the socket has moved to. So poll(), select() and epoll know it already, and the
 * program may close it. An entry of the table is checked before it is used. The set of a direct ring has
 * the card's descriptor instead.
 */
#include <sys/epoll.h>

#include "base/mutex.h"
#include "base/user.h"
#include "intercept/extra.h"
#include "intercept/wrap.h"
#include "sock/core/extra/direct.h"
#include "sock/core/extra/sock_extra.h"
#include "sock/core/extra/xtreme.h"
#include "sock/wait/epoll.h"

struct ring_fd {
	struct sock_ref ref; /* sk NULL: none was made */
	struct epoll *epoll; /* type-stable: a late call finds that it was closed */
	int fd;
	uint32_t life; /* of a direct ring */
};

#define NUMBERS (SOCK_RING_NUMBERS + DIRECT_MAX)

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ring_fd table[NUMBERS]; /* table_lock: by number of the ring */

static bool is_open(const struct ring_fd *r)
{
	struct sock_ref now = r->ref.sk ? fd_get(r->fd) : r->ref;

	return now.sk && now.sk == r->ref.sk && now.gen == r->ref.gen;
}

/* table_lock: the set reports what the card tells of a direct ring. */
static void watch_card(struct ring_fd *r, unsigned number)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = direct_fd((struct direct_id){number, r->life});

	if (fd >= 0 && libc.epoll_ctl(r->fd, EPOLL_CTL_ADD, fd, &event))
		fd = -errno;
	if (fd >= 0) {
		epoll_note_kernel_fd(r->epoll, 1);
		return;
	}
	close(r->fd);
	r->ref.sk = NULL;
	r->fd = fd;
}

/* The descriptor of a ring, made at need; fd: -errno. */
static struct ring_fd ring_fd_of(unsigned number, uint32_t life)
{
	struct ring_fd *r = &table[number], got;

	mutex_lock(&table_lock);
	if (!is_open(r) || r->life != life) {
		r->ref = epoll_make(&r->fd);
		r->epoll = r->ref.sk ? r->ref.sk->epoll : NULL;
		r->life = life;
		if (life && r->ref.sk)
			watch_card(r, number);
	}
	got = *r;
	mutex_unlock(&table_lock);
	return got;
}

int extra_rings_fds(struct sock_ref ref, int fd, int *fds, unsigned max)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLPRI | EPOLLRDHUP, .data.fd = fd};
	unsigned numbers[EXTRA_RINGS_MAX], n;

	if (xtreme_is_on())
		xtreme_begin(ref, fd); /* a socket that was inherited */
	n = sock_ring_numbers(ref.sk, numbers, max < EXTRA_RINGS_MAX ? max : EXTRA_RINGS_MAX);
	for (unsigned i = 0; i < n; i++) {
		struct ring_fd r = ring_fd_of(numbers[i], 0);
		int rc = r.fd;

		if (rc >= 0)
			rc = epoll_control(r.epoll, EPOLL_CTL_ADD, fd, ref, &event);
		if (rc && rc != -EEXIST && rc != SOCK_KERNEL)
			return rc;
		fds[i] = r.fd;
	}
	return (int)n;
}

/* The ring that this thread asked about last: the mapping never changes, but the descriptor may end. */
static __thread struct {
	struct sock_ref ref;
	unsigned number;
} last __attribute__((tls_model("initial-exec")));

static bool is_last(struct sock_ref ref)
{
	return ref.sk && ref.sk == last.ref.sk && ref.gen == last.ref.gen;
}

int extra_ring_number(int fd)
{
	struct sock_ref ref = fd_get(fd);
	bool found = is_last(ref);

	if (found || !ref.sk)
		return found ? (int)last.number : -EBADF;
	mutex_lock(&table_lock);
	for (unsigned i = 0; i < SOCK_RING_NUMBERS && !found; i++) {
		if (table[i].ref.sk != ref.sk || table[i].ref.gen != ref.gen)
			continue;
		last.ref = ref;
		last.number = i;
		found = true;
	}
	mutex_unlock(&table_lock);
	return found ? (int)last.number : -EBADF;
}

int extra_ring_id(int fd, struct direct_id *id)
{
	struct sock_ref ref = fd_get(fd);
	bool found = false;

	mutex_lock(&table_lock);
	for (unsigned i = 0; ref.sk && i < NUMBERS && !found; i++) {
		found = table[i].ref.sk == ref.sk && table[i].ref.gen == ref.gen;
		if (found)
			*id = (struct direct_id){i, table[i].life};
	}
	mutex_unlock(&table_lock);
	return found ? 0 : -EBADFD;
}

int extra_ring_fd(unsigned number)
{
	uint32_t life = direct_life(number);

	if (number >= SOCK_RING_NUMBERS && !life)
		return -ENODEV;
	return ring_fd_of(number, life).fd;
}

void extra_rings_fork_child(void)
{
	pthread_mutex_init(&table_lock, NULL);
	for (unsigned i = 0; i < NUMBERS; i++)
		table[i].ref.sk = NULL;
	last.ref.sk = NULL;
}
