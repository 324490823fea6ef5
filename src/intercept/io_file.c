/* SPDX-License-Identifier: BSD-2-Clause */
/* Between a socket and a file or pipe: sendfile(2), splice(2). */
#include <fcntl.h>
#include <limits.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "intercept/io.h"

#define PIECE 16384 /* on the stack */
#define DATAGRAM_MAX 65536

/* Sends from `in` at *offset, and advances it. Bytes, or -errno if none. */
static ssize_t send_file(struct sock_ref ref, int in, off64_t *offset, size_t count)
{
	size_t done = 0;

	while (done < count) {
		char piece[PIECE];
		size_t want = count - done < sizeof(piece) ? count - done : sizeof(piece);
		ssize_t got = sys_call(SYS_pread64, in, piece, want, *offset, 0, 0);
		ssize_t rc = got > 0 ? send_buf(ref, piece, (size_t)got, 0) : got;

		if (rc == -EISDIR)
			rc = -EINVAL; /* as the kernel for a file without pages to send */
		if (rc <= 0)
			return done ? (ssize_t)done : rc;
		*offset += rc;
		done += (size_t)rc;
		if (rc < got)
			break;
	}
	return (ssize_t)done;
}

/* For streams only: the kernel itself divides the data of a datagram socket into datagrams. */
static ssize_t do_sendfile(struct sock_ref ref, int in, off64_t *offset, size_t count)
{
	off64_t at;
	ssize_t rc;

	if (count > IO_MAX)
		count = IO_MAX;
	if (offset) {
		if (*offset < 0)
			return -EINVAL;
		return send_file(ref, in, offset, count);
	}
	/* The file's own position moves. */
	at = sys_call(SYS_lseek, in, 0, SEEK_CUR, 0, 0, 0);
	if (at < 0)
		return at == -ESPIPE ? -EINVAL : at;
	rc = send_file(ref, in, &at, count);
	if (rc > 0)
		sys_call(SYS_lseek, in, at, SEEK_SET, 0, 0, 0);
	return rc;
}

EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t count)
{
	struct sock_ref ref = sock_get(out);
	int saved = errno;
	ssize_t rc;

	if (!ref.sk || ref.sk->type != SOCK_TYPE_TCP)
		return libc.sendfile64(out, in, offset, count);
	rc = do_sendfile(ref, in, offset, count);
	return rc == SOCK_KERNEL ? libc.sendfile64(out, in, offset, count)
				 : sent(ref, rc, 0, saved);
}

_Static_assert(sizeof(off_t) == sizeof(off64_t), "sendfile() is sendfile64()");

EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t count)
{
	return sendfile64(out, in, offset, count);
}

/* ---- splice ------------------------------------------------------------------------ */

static bool is_pipe(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISFIFO(st.st_mode);
}

/* 0 if the pipe has the event now or the call may wait for it; else -EAGAIN. */
static int pipe_ready(int fd, short event, unsigned flags)
{
	struct pollfd p = {.fd = fd, .events = event};
	struct timespec zero = {0, 0};

	if (!(flags & SPLICE_F_NONBLOCK) && !(sys_fcntl(fd, F_GETFL, 0) & O_NONBLOCK))
		return 0;
	return sys_ppoll(&p, 1, &zero, NULL) == 1 ? 0 : -EAGAIN;
}

/* Bytes that can be read from a pipe now. */
static size_t pipe_bytes(int fd)
{
	int n = 0;

	return sys_ioctl(fd, FIONREAD, &n) || n < 0 ? 0 : (size_t)n;
}

/* Sends all of it, because the bytes are no longer in the pipe. */
static ssize_t send_all(struct sock_ref ref, const char *data, size_t n, int flags)
{
	struct pollfd p = {.fd = sock_twin(ref.sk), .events = POLLOUT};
	size_t done = 0;

	for (;;) {
		ssize_t rc = send_buf(ref, data + done, n - done, flags);

		if (rc < 0 && rc != -EAGAIN && rc != -EINTR)
			return done ? (ssize_t)done : rc;
		done += rc > 0 ? (size_t)rc : 0;
		if (done == n)
			return (ssize_t)n;
		poll(&p, 1, -1); /* another thread took the room */
	}
}

/* Moves one piece from the pipe to a connection. */
static ssize_t splice_piece_out(int in, struct sock_ref ref, size_t len, unsigned flags)
{
	bool nonblock = __atomic_load_n(&ref.sk->nonblock, __ATOMIC_RELAXED);
	size_t room = sock_room(ref);
	char piece[PIECE];
	ssize_t n;

	if (!room) {
		/* Returns the connection's error, if it has one. */
		n = send_buf(ref, piece, 0, MSG_DONTWAIT);
		if (n < 0 && n != -EAGAIN)
			return n;
		if (nonblock)
			return -EAGAIN;
		room = sizeof(piece);
	}
	room = room < sizeof(piece) ? room : sizeof(piece);
	n = libc.read(in, piece, len < room ? len : room);
	if (n <= 0)
		return n ? -errno : 0;
	return send_all(ref, piece, (size_t)n,
			(flags & SPLICE_F_MORE) || ((size_t)n < len && pipe_bytes(in)) ? MSG_MORE
										       : 0);
}

/* Waits for the first bytes only. */
static ssize_t splice_out(int in, struct sock_ref ref, size_t len, unsigned flags)
{
	size_t done = 0;
	ssize_t rc = pipe_ready(in, POLLIN, flags);

	while (!rc && done < len) {
		ssize_t n = splice_piece_out(in, ref, len - done, flags);

		if (n <= 0)
			rc = n;
		else
			done += (size_t)n;
		if (n <= 0 || !pipe_bytes(in))
			break;
	}
	return done ? (ssize_t)done : rc;
}

/*
 * Moves one piece to the pipe: peeks, writes, and only then consumes it, since the pipe may
 * refuse it. A pipe that is writable takes PIPE_BUF bytes without blocking.
 */
static ssize_t splice_piece_in(struct sock_ref ref, int out, size_t len, int wait)
{
	char piece[PIPE_BUF];
	struct iovec iov = iov_of(piece, len < sizeof(piece) ? len : sizeof(piece));
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n = sock_ops_of(ref.sk)->recv(ref, &msg, MSG_PEEK | wait);

	if (n <= 0)
		return n;
	n = libc.write(out, piece, (size_t)n);
	if (n <= 0)
		return n ? -errno : 0;
	iov = iov_of(piece, (size_t)n);
	return sock_ops_of(ref.sk)->recv(ref, &msg, MSG_TRUNC | MSG_DONTWAIT);
}

/* More bytes of a stream: an error is for the next call. */
static bool has_more(struct sock_ref ref)
{
	int n = 0;

	return !sock_ops_of(ref.sk)->ioctl(ref, FIONREAD, &n) && n > 0;
}

static ssize_t splice_in(struct sock_ref ref, int out, size_t len, unsigned flags)
{
	size_t done = 0;
	ssize_t rc = 0;

	while (done < len && (!done || has_more(ref))) {
		rc = pipe_ready(out, POLLOUT, done ? SPLICE_F_NONBLOCK : flags);
		if (!rc)
			rc = splice_piece_in(ref, out, len - done, done ? MSG_DONTWAIT : 0);
		if (rc <= 0)
			break;
		done += (size_t)rc;
	}
	return done ? (ssize_t)done : rc;
}

/* What the pipe has room for.  Bytes, or -errno if none. */
static ssize_t write_at_once(int out, const char *data, size_t n)
{
	size_t done = 0;

	while (done < n && !pipe_ready(out, POLLOUT, SPLICE_F_NONBLOCK)) {
		size_t piece = n - done < PIPE_BUF ? n - done : PIPE_BUF;
		ssize_t rc = sys_write(out, data + done, piece);

		if (rc <= 0)
			return done ? (ssize_t)done : rc;
		done += (size_t)rc;
	}
	return (ssize_t)done;
}

/* As the kernel: one datagram, of which the pipe gets what it has room for.  Waits with nothing in hand. */
static ssize_t splice_datagram(struct sock_ref ref, int out, size_t len, unsigned flags)
{
	ssize_t n = pipe_ready(out, POLLOUT, flags);
	struct msghdr none = {0};
	struct iovec iov = iov_of(NULL, len < DATAGRAM_MAX ? len : DATAGRAM_MAX);
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (!n)
		n = sock_ops_of(ref.sk)->recv(ref, &none, MSG_PEEK);
	if (n < 0)
		return n;
	iov.iov_base = mem_alloc(iov.iov_len);
	if (!iov.iov_base)
		return -ENOMEM;
	n = sock_ops_of(ref.sk)->recv(ref, &msg, MSG_DONTWAIT);
	if (n > 0)
		n = write_at_once(out, iov.iov_base, (size_t)n);
	mem_free(iov.iov_base);
	return n;
}

EXPORT ssize_t splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t len, unsigned flags)
{
	const unsigned known = SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT;
	struct sock_ref from = sock_get(in), to = sock_get(out);
	int saved = errno;
	ssize_t rc;

	/* The kernel reports errors in the arguments. */
	if (!len || in_at || out_at || (flags & ~known))
		return libc.splice(in, in_at, out, out_at, len, flags);
	if (len > IO_MAX)
		len = IO_MAX;
	if (to.sk && to.sk->type == SOCK_TYPE_TCP && is_pipe(in)) {
		rc = splice_out(in, to, len, flags);
		if (rc != SOCK_KERNEL)
			return sent(to, rc, 0, saved);
	} else if (from.sk && from.sk->type != SOCK_TYPE_EPOLL && is_pipe(out)) {
		rc = from.sk->type == SOCK_TYPE_TCP ? splice_in(from, out, len, flags)
						    : splice_datagram(from, out, len, flags);
		if (rc != SOCK_KERNEL)
			return to_libc(rc, saved);
	}
	return libc.splice(in, in_at, out, out_at, len, flags);
}
