/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/zerocopy.h"

#include "sock/wait/wait.h"

struct zerocopy {
	struct inet_sock *so;
	struct msghdr *msg; /* to read into */
};

static bool begin_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct zerocopy *z = arg;

	(void)ring;
	(void)wait;
	*n = sock_is_exported(&z->so->sk) ? SOCK_FETCH : sock_error_queue_begin(z->so);
	return *n != SOCK_FETCH;
}

static bool tell_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct zerocopy *z = arg;

	(void)ring;
	(void)wait;
	*n = SOCK_FETCH;
	if (sock_is_exported(&z->so->sk))
		return false;
	sock_error_queue_tell(z->so);
	*n = 0;
	return true;
}

static bool read_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct zerocopy *z = arg;

	(void)ring;
	(void)wait;
	*n = sock_is_exported(&z->so->sk) ? SOCK_FETCH : sock_error_queue_read(z->so, z->msg);
	return *n != SOCK_FETCH;
}

/* One try, after which the call returns, if the socket is in this process. */
static ssize_t make(struct sock_ref ref, struct msghdr *msg, sock_try_fn *try)
{
	struct zerocopy z = {.so = inet_of(ref.sk), .msg = msg};
	struct sock_call call = SOCK_CALL(ref, 0, EPOLLOUT);

	return sock_wait_loop(call, SOCK_WAIT_COLD, try, NULL, &z);
}

ssize_t zerocopy_send(struct sock_ref ref, const struct msghdr *msg, int flags)
{
	ssize_t told = sock_is_dummy(flags) ? 0 : make(ref, NULL, begin_try), n;

	if (told < 0)
		return told;
	/* A call that connects first (MSG_FASTOPEN) may make it a socket of another kind. */
	n = sock_ops_of(ref.sk)->send(ref, msg, flags & ~MSG_ZEROCOPY);
	/* Only where another process has taken the socket meanwhile can this be interrupted. */
	while (told && n > 0 && make(ref, NULL, tell_try) == -EINTR)
		;
	return n;
}

ssize_t zerocopy_read(struct sock_ref ref, struct msghdr *msg)
{
	return make(ref, msg, read_try);
}
