/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of socketxtreme (vma_extra.h).  A poll makes completions in the program's memory, which it
 * has checked before; it accepts connections when it has released the ring.
 */
#include <mellanox/vma_extra.h>

#include "base/mem.h"
#include "base/sys.h"
#include "base/user.h"
#include "intercept/extra.h"
#include "intercept/wrap.h"
#include "sock/core/extra/xtreme.h"

/* Where the next completions go. */
struct poll_to {
	struct vma_completion_t *at;
	unsigned left;
};

static int put_connection(struct poll_to *to, int fd, int listen_fd,
			  const struct sockaddr_storage *from)
{
	struct vma_completion_t c = {
		.events = VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED,
		.user_data = (uint64_t)fd,
		.listen_fd = listen_fd,
	};
	const struct sockaddr *sa = (const struct sockaddr *)from;
	struct endpoint peer;

	if (endpoint_from_sin(&peer, sa, sizeof(*from)) ||
	    endpoint_from_sin6(&peer, sa, sizeof(*from)))
		xtreme_set_sender(&c, &peer);
	if (!user_copy(to->at, &c, sizeof(c)))
		return -EFAULT;
	to->at++;
	to->left--;
	return 0;
}

/* Accepts what waits in the listener's queue, as far as there is room.  0 or -errno. */
static int accept_all(struct poll_to *to, const struct xtreme_listener *listener)
{
	struct sockaddr_storage from;
	struct sock_ref child;
	int fd = 0, rc = 0;

	while (to->left && !rc) {
		socklen_t len = sizeof(from);

		fd = socket_accept(listener->ref, &from, &len, SOCK_ACCEPT_QUEUED, &child);
		if (fd < 0)
			break;
		rc = put_connection(to, fd, listener->fd, &from);
		if (rc)
			sys_close(fd);
		else if (child.sk)
			xtreme_begin(child, fd);
	}
	if (fd == -EAGAIN || fd == -EBADF || fd == -EINVAL || fd == SOCK_KERNEL)
		return rc;
	xtreme_again(listener->ref); /* some are left */
	return rc ? rc : fd < 0 ? fd : 0;
}

/* Accepts at the listeners of a batch.  0 or -errno. */
static __attribute__((noinline)) int accept_batch(struct poll_to *to, const struct xtreme_batch *b)
{
	int rc = 0, error;

	for (unsigned i = 0; i < b->n_listeners; i++) {
		error = accept_all(to, &b->listeners[i]);
		rc = rc ? rc : error;
	}
	return rc;
}

/* One hold of the ring.  0 or -errno. */
static int poll_batch(unsigned ring, struct poll_to *to)
{
	struct xtreme_batch b; /* not cleared: xtreme_poll() sets the rest */

	b.max = to->left < XTREME_BATCH ? to->left : XTREME_BATCH;
	b.completions = to->at;
	/*
	 * All of it, because a page is larger; now, because what was taken cannot be put back.
	 */
	_Static_assert(sizeof(*b.completions) * XTREME_BATCH <= USER_PAGE, "one page, or two");
	if (!user_can_write(to->at) || !user_can_write((char *)(to->at + b.max) - 1))
		return -EFAULT;
	xtreme_poll(ring, &b);
	to->at += b.n;
	to->left -= b.n;
	return __builtin_expect(b.n_listeners != 0, 0) ? accept_batch(to, &b) : 0;
}

int extra_xtreme_poll(int fd, struct vma_completion_t *completions, unsigned n)
{
	struct poll_to to = {.at = completions, .left = n < INT32_MAX ? n : INT32_MAX};
	int ring = extra_ring_number(fd), rc = 0;
	unsigned all = to.left, before;

	if (ring < 0)
		return -EBADFD;
	if (n && (!completions || !mem_is_users(completions)))
		return -EFAULT;
	while (to.left) {
		before = to.left;
		rc = poll_batch((unsigned)ring, &to);
		if (rc || before - to.left < XTREME_BATCH)
			break;
	}
	return to.left == all ? rc : (int)(all - to.left);
}

/* 0, EFAULT, or EINVAL: it names no buffer. */
static inline __attribute__((always_inline)) int free_packet(const struct vma_packet_desc_t *packet)
{
	uint64_t buff;

	if (!user_load64(&buff, &packet->buff_lst))
		return EFAULT;
	return __builtin_expect(buff_put((const struct vma_buff_t *)buff) < 0, 0) ? EINVAL : 0;
}

static __attribute__((noinline)) int free_several(const struct vma_packet_desc_t *packets, int n)
{
	int error = 0;

	if (n < 0)
		return extra_failed(EINVAL);
	for (int i = 0; i < n && error != EFAULT; i++) {
		int one = free_packet(&packets[i]);

		error = one ? one : error;
	}
	return error ? extra_failed(error) : 0;
}

/* Out of line, because a call needs a frame. */
static __attribute__((noinline, cold)) int free_failed(int error)
{
	return extra_failed(error);
}

int extra_xtreme_free_packets(const struct vma_packet_desc_t *packets, int n)
{
	int error;

	if (__builtin_expect(!packets, 0))
		return free_failed(EINVAL);
	if (n != 1)
		return free_several(packets, n);
	error = free_packet(packets);
	return __builtin_expect(error, 0) ? free_failed(error) : 0;
}
