/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of <vma/vma.h>: batches, sending without a copy, verdicts, events.  A function checks what
 * the program gave it, calls the socket layer, and converts the result as the wrappers of libc do.
 */
#include <string.h>
#include <sys/stat.h>
#include <vma/vma.h>

#include "base/user.h"
#include "intercept/extra.h"
#include "intercept/io.h"
#include "intercept/wrap.h"
#include "sock/core/extra/message.h"
#include "sock/core/extra/room.h"
#include "sock/core/extra/sock_extra.h"

#define BATCH_MAX 1024u /* messages of a call */
#define CHUNK 32u	/* messages that are copied here, and for which a ring is held, at a time */

/* ---- batches -------------------------------------------------------------------------- */

/* A batch, some messages at a time. */
struct batch {
	int fd, flags;
	struct sock_ref ref;
	struct vma_message_t messages[CHUNK]; /* a copy; the program's may change meanwhile */
	unsigned n;
	struct iovec iovs[CHUNK];
};

/* Copies n messages of the program.  0 or -EFAULT. */
static int load(struct batch *b, const struct vma_message_t *from, unsigned n)
{
	b->n = n;
	if (user_read(b->messages, from, n * sizeof(*from)))
		return -EFAULT;
	for (unsigned i = 0; i < n; i++) {
		struct vma_message_t *m = &b->messages[i];

		if (!mem_is_users(m->data) || !mem_is_users(m->addr))
			return -EFAULT;
		if (m->size > IO_MAX)
			m->size = IO_MAX;
		m->flags = 0;
		m->done = 0;
		m->error = 0;
		b->iovs[i] = (struct iovec){m->data, m->size};
	}
	return 0;
}

/* Stores what became of the first n messages. */
static int store(const struct batch *b, struct vma_message_t *to, unsigned n)
{
	return user_write(to, b->messages, n * sizeof(*to)) ? -EFAULT : 0;
}

/* Of a stream, len bytes are in messages one after the other: how many are complete. */
static unsigned spread(struct batch *b, size_t len)
{
	unsigned i;

	for (i = 0; i < b->n && len >= b->messages[i].size; i++) {
		b->messages[i].done = b->messages[i].size;
		len -= b->messages[i].size;
	}
	if (i < b->n)
		b->messages[i].done = len;
	return i;
}

static bool is_stream(const struct batch *b)
{
	int type = 0;
	socklen_t len = sizeof(type);

	if (b->ref.sk)
		return b->ref.sk->type == SOCK_TYPE_TCP;
	return !libc.getsockopt(b->fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_STREAM;
}

/* The rest of a batch from message i on, by one call each.  How many messages in all; -errno. */
static int recv_one_by_one(struct batch *b, unsigned i, bool stream)
{
	int flags = b->flags | (i ? MSG_DONTWAIT : 0);

	for (; i < b->n; i++, flags |= MSG_DONTWAIT) {
		struct vma_message_t *m = &b->messages[i];
		struct msghdr msg = message_header(m, &b->iovs[i]);
		ssize_t len = recvmsg(b->fd, &msg, flags);

		if (len < 0)
			return i ? (int)i : -errno;
		if (stream && !len && m->size)
			return (int)i;
		m->done = (size_t)len;
		m->flags = msg.msg_flags & MSG_TRUNC;
		m->addr_len = msg.msg_namelen;
		if (stream && (size_t)len < m->size)
			return (int)i + 1;
	}
	return (int)i;
}

static int recv_stream(struct batch *b)
{
	struct msghdr msg = {.msg_iov = b->iovs, .msg_iovlen = b->n};
	ssize_t len = SOCK_KERNEL;
	unsigned full;

	if (b->ref.sk)
		len = sock_ops_of(b->ref.sk)->recv(b->ref, &msg, b->flags);
	if (len == SOCK_KERNEL)
		return recv_one_by_one(b, 0, true);
	if (len < 0)
		return (int)len;
	for (unsigned i = 0; i < b->n; i++)
		b->messages[i].addr_len = 0;
	full = spread(b, (size_t)len);
	return (int)(full + (full < b->n && b->messages[full].done));
}

static int recv_datagrams(struct batch *b)
{
	unsigned done = 0;
	int rc = SOCK_KERNEL;

	if (b->ref.sk)
		rc = sock_recv_batch(b->ref, b->messages, b->n, b->flags, &done);
	if (rc == SOCK_KERNEL)
		return recv_one_by_one(b, done, false);
	return done ? (int)done : rc;
}

/* How many of n messages, at most CHUNK; -errno. */
static int recv_chunk(struct batch *b, struct vma_message_t *messages, unsigned n)
{
	int got = load(b, messages, n), rc;

	if (got)
		return got;
	got = is_stream(b) ? recv_stream(b) : recv_datagrams(b);
	rc = got > 0 ? store(b, messages, (unsigned)got) : 0;
	return rc ? rc : got;
}

static int vma_recv_batch(int fd, struct vma_message_t *messages, unsigned count, int flags)
{
	struct batch b = {.fd = fd, .flags = flags, .ref = sock_get(fd)};
	int saved = errno, got = 0;
	unsigned done = 0, n;

	if (!count || count > BATCH_MAX || (flags & ~MSG_DONTWAIT))
		return extra_failed(EINVAL);
	do {
		n = count - done < CHUNK ? count - done : CHUNK;
		got = recv_chunk(&b, messages + done, n);
		if (got > 0)
			done += (unsigned)got;
		b.flags |= MSG_DONTWAIT;
	} while (got == (int)n && done < count && !b.messages[n - 1].error);
	return (int)to_libc(done ? (ssize_t)done : got, saved);
}

/* The rest of a batch from message i on, by one call each.  How many messages in all; *error. */
static unsigned send_one_by_one(struct batch *b, unsigned i, bool stream, int *error)
{
	int flags = b->flags & ~MSG_MORE;

	for (; i < b->n; i++) {
		struct vma_message_t *m = &b->messages[i];
		struct msghdr msg = message_header(m, &b->iovs[i]);
		ssize_t len;

		if (i + 1 == b->n)
			flags = b->flags;
		len = sendmsg(b->fd, &msg, flags);
		if (len < 0) {
			*error = errno;
			break;
		}
		m->done = (size_t)len;
		if (stream && (size_t)len < m->size) {
			*error = EAGAIN;
			break;
		}
	}
	return i;
}

static unsigned send_stream(struct batch *b, int *error)
{
	struct msghdr msg = {.msg_iov = b->iovs, .msg_iovlen = b->n};
	ssize_t len = SOCK_KERNEL;
	unsigned full;

	for (unsigned i = 0; i < b->n; i++) {
		if (b->messages[i].addr) {
			*error = EISCONN;
			b->n = i;
			break;
		}
	}
	if (!b->n)
		return 0;
	msg.msg_iovlen = b->n;
	if (b->ref.sk)
		len = sock_ops_of(b->ref.sk)->send(b->ref, &msg, b->flags);
	if (len == SOCK_KERNEL)
		return send_one_by_one(b, 0, true, error);
	if (len < 0) {
		sent(b->ref, len, b->flags, 0); /* a signal, and errno */
		*error = (int)-len;
		return 0;
	}
	full = spread(b, (size_t)len);
	if (full < b->n)
		*error = EAGAIN;
	return full;
}

static unsigned send_datagrams(struct batch *b, int *error)
{
	unsigned done = 0, n;
	int rc = SOCK_KERNEL;

	for (unsigned i = 0; i < b->n; i++) {
		const struct vma_message_t *m = &b->messages[i];

		if (m->addr && (m->addr_len > sizeof(struct sockaddr_storage) ||
				!user_can_read(m->addr, m->addr_len))) {
			*error = m->addr_len > sizeof(struct sockaddr_storage) ? EINVAL : EFAULT;
			b->n = i;
		}
	}
	if (b->ref.sk && b->n && !(b->flags & MSG_MORE))
		rc = sock_send_batch(b->ref, b->messages, b->n, b->flags & MSG_DONTWAIT, &done);
	n = done;
	if (rc == SOCK_KERNEL)
		n = send_one_by_one(b, done, false, error);
	else if (rc < 0)
		*error = -rc;
	return n;
}

static int vma_send_batch(int fd, struct vma_message_t *messages, unsigned count, int flags)
{
	struct batch b = {.fd = fd, .ref = sock_get(fd)};
	unsigned done = 0, n, got, told;
	int saved = errno, error = 0;

	if (!count || count > BATCH_MAX || (flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE)))
		return extra_failed(EINVAL);
	do {
		n = count - done < CHUNK ? count - done : CHUNK;
		b.flags = done + n < count ? flags & ~MSG_MORE : flags;
		error = -load(&b, messages + done, n);
		if (error)
			break;
		got = is_stream(&b) ? send_stream(&b, &error) : send_datagrams(&b, &error);
		told = got;
		if (got < n) /* ... and why not the next one */
			b.messages[told++].error = error;
		if (store(&b, messages + done, told))
			error = EFAULT;
		done += got;
	} while (!error && done < count);
	return done ? (int)to_libc((ssize_t)done, saved) : extra_failed(error);
}

/* ---- sending without a copy ------------------------------------------------------------- */

static int vma_reserve(int fd, size_t size, struct vma_room_t *room, size_t *max)
{
	struct sock_ref ref = extra_served(fd);
	struct vma_room_t out;
	int saved = errno, rc;
	size_t most = 0;

	if (!ref.sk)
		return extra_failed(EOPNOTSUPP);
	rc = room_reserve(ref, size, &out, &most);
	if (rc == SOCK_KERNEL)
		rc = -EOPNOTSUPP;
	if (max && (!rc || rc == -EMSGSIZE) && user_write(max, &most, sizeof(most)) && !rc)
		rc = -EFAULT;
	else if (!rc && user_write(room, &out, sizeof(out)))
		rc = -EFAULT;
	else
		return (int)to_libc(rc, saved);
	if (out.id && rc == -EFAULT) /* it was reserved, but the program does not know it */
		room_free(room_claim(out.id, ref, true));
	return extra_failed(EFAULT);
}

/* As send(), which copies. */
static ssize_t commit_copy(int fd, struct sock_ref ref, const struct room *room, size_t size,
			   const struct sockaddr *addr, socklen_t addr_len)
{
	struct iovec iov = room_iov(room, size);
	struct msghdr msg = {.msg_name = (void *)(uintptr_t)addr,
			     .msg_namelen = addr ? addr_len : 0,
			     .msg_iov = &iov,
			     .msg_iovlen = 1};
	ssize_t n = SOCK_KERNEL;

	if (ref.sk)
		n = sock_ops_of(ref.sk)->send(ref, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n != SOCK_KERNEL)
		return n;
	n = libc.sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 ? -errno : n;
}

static ssize_t commit(int fd, struct sock_ref ref, struct room *room, size_t size,
		      const struct sockaddr *addr, socklen_t addr_len)
{
	ssize_t n;

	if (size > room->size)
		return -EINVAL;
	if (addr && ref.sk && ref.sk->type == SOCK_TYPE_TCP)
		return -EINVAL;
	n = room_commit(room, ref, size, addr, addr_len);
	if (n >= 0)
		return n;
	if (n == SOCK_KERNEL)
		n = commit_copy(fd, ref, room, size, addr, addr_len);
	if (n >= 0)
		room_done(room, (size_t)n, size);
	return n;
}

static ssize_t vma_commit(int fd, uint64_t id, size_t size, int flags, const struct sockaddr *addr,
			  socklen_t addr_len)
{
	struct sock_ref ref = sock_get(fd);
	struct sockaddr_storage copy;
	int saved = errno;
	struct room *room;
	ssize_t n;

	if (flags || (addr && addr_len > sizeof(copy)))
		return extra_failed(EINVAL);
	if (addr && user_read(&copy, addr, addr_len))
		return extra_failed(EFAULT);
	room = room_claim(id, ref, false);
	if (!room)
		return extra_failed(ENOENT);
	n = commit(fd, ref, room, size, addr ? (const struct sockaddr *)&copy : NULL, addr_len);
	if (n < 0)
		room_keep(room);
	return to_libc(n, saved);
}

static int vma_abandon(int fd, uint64_t id)
{
	struct room *room = room_claim(id, sock_get(fd), true);

	if (!room)
		return extra_failed(ENOENT);
	room_free(room);
	return 0;
}

/* ---- what became of a socket ------------------------------------------------------------ */

static int vma_get_verdict(int fd, struct vma_verdict_t *verdict, size_t size)
{
	struct sock_ref ref = sock_get(fd);
	struct vma_verdict_t v;
	int saved = errno;
	struct stat st;

	if (fstat(fd, &st))
		return -1;
	if (!S_ISSOCK(st.st_mode))
		return extra_failed(ENOTSOCK);
	sock_tell_verdict(ref, fd, &v);
	if (user_write(verdict, &v, size < sizeof(v) ? size : sizeof(v)))
		return extra_failed(EFAULT);
	errno = saved;
	return 0;
}

static int vma_get_events(int fd, struct vma_event_t *events, unsigned count, size_t size)
{
	struct sock_ref ref = sock_get(fd);
	struct vma_event_t *found = NULL;
	int saved = errno, n;

	if (size != sizeof(*events))
		return extra_failed(EINVAL);
	if (!ref.sk)
		return extra_failed(EBADF);
	n = sock_last_events(ref, &found, count);
	if (n > 0 && user_write(events, found, (size_t)n * sizeof(*events)))
		n = -EFAULT;
	mem_free(found);
	return (int)to_libc(n, saved);
}

/* ---- the table -------------------------------------------------------------------------- */

static const struct vma_ext_t table = {
	.version = VMA_EXT_VERSION,
	.size = sizeof(table),
	.vma_recv_batch = vma_recv_batch,
	.vma_send_batch = vma_send_batch,
	.vma_reserve = vma_reserve,
	.vma_commit = vma_commit,
	.vma_abandon = vma_abandon,
	.vma_get_verdict = vma_get_verdict,
	.vma_get_events = vma_get_events,
};

int ext_get(void *val, socklen_t *len)
{
	const struct vma_ext_t *at = &table;
	socklen_t room;

	start();
	if (user_read(&room, len, sizeof(room)))
		return -EFAULT;
	return room < sizeof(at) ? -EINVAL : user_write(val, &at, sizeof(at));
}
