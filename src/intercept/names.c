/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Other names of calls; functions of the C library that make a call internally, where no
 * wrapper is called; and calls that only have to be noted.
 */
#include <aio.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "intercept/wrap.h"

/* Not declared in current headers, but old programs and assembly call them. */
int __close(int fd);
int __connect(int fd, const struct sockaddr *addr, socklen_t len);
int __dup2(int fd, int to);
int __fcntl(int fd, int cmd, ...);
int __poll(struct pollfd *fds, nfds_t n, int timeout);
ssize_t __read(int fd, void *buf, size_t len);
int __select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout);
ssize_t __send(int fd, const void *buf, size_t len, int flags);
ssize_t __write(int fd, const void *buf, size_t len);
FILE *_IO_fdopen(int fd, const char *mode);
FILE *_IO_popen(const char *command, const char *type);

EXPORT int __close(int fd)
{
	return close(fd);
}

EXPORT int __connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return connect(fd, addr, len);
}

EXPORT int __dup2(int fd, int to)
{
	return dup2(fd, to);
}

EXPORT int __fcntl(int fd, int cmd, ...)
{
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	return fcntl(fd, cmd, arg);
}

EXPORT int __poll(struct pollfd *fds, nfds_t n, int timeout)
{
	return poll(fds, n, timeout);
}

EXPORT ssize_t __read(int fd, void *buf, size_t len)
{
	return read(fd, buf, len);
}

EXPORT int __select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
{
	return select(n, r, w, e, timeout);
}

EXPORT ssize_t __send(int fd, const void *buf, size_t len, int flags)
{
	return send(fd, buf, len, flags);
}

EXPORT ssize_t __write(int fd, const void *buf, size_t len)
{
	return write(fd, buf, len);
}

EXPORT FILE *_IO_fdopen(int fd, const char *mode)
{
	return fdopen(fd, mode);
}

EXPORT FILE *_IO_popen(const char *command, const char *type)
{
	return popen(command, type);
}

/* ---- network namespaces ------------------------------------------------------------ */

EXPORT int setns(int fd, int kind)
{
	if (!kind || (kind & CLONE_NEWNET))
		sock_namespaces_differ();
	return libc.setns(fd, kind);
}

EXPORT int unshare(int flags)
{
	if (flags & CLONE_NEWNET)
		sock_namespaces_differ();
	return libc.unshare(flags);
}

/* ---- calls inside the C library ---------------------------------------------------- */

EXPORT int sockatmark(int fd)
{
	int at;

	return ioctl(fd, SIOCATMARK, &at) ? -1 : at;
}

/* sigset(3): System V's interface to sigaction(). */
EXPORT sighandler_t sigset(int sig, sighandler_t handler)
{
	struct sigaction act = {.sa_handler = handler}, old;
	sigset_t one, before;

	sigemptyset(&one);
	if (sigaddset(&one, sig))
		return SIG_ERR;
	if (sigaction(sig, handler == SIG_HOLD ? NULL : &act, &old))
		return SIG_ERR;
	if (sigprocmask(handler == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, &one, &before))
		return SIG_ERR;
	return sigismember(&before, sig) ? SIG_HOLD : old.sa_handler;
}

/*
 * Only the kernel serves the call that follows. A connection stays ours, and the call
 * reports ENOTCONN.
 */
static void leave_to_kernel(int fd)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;

	if (ref.sk && !fork_is_vfork_child())
		sock_to_kernel(ref, VERDICT_CALL);
	errno = saved;
}

EXPORT int bindresvport(int fd, struct sockaddr_in *addr)
{
	leave_to_kernel(fd);
	return libc.bindresvport(fd, addr);
}

#define AIO(name, type)                               \
	EXPORT int name(type *request)                \
	{                                             \
		leave_to_kernel(request->aio_fildes); \
		return libc.name(request);            \
	}
AIO(aio_read, struct aiocb)
AIO(aio_read64, struct aiocb64)
AIO(aio_write, struct aiocb)
AIO(aio_write64, struct aiocb64)
#undef AIO

#define LIO(name, type)                                                   \
	EXPORT int name(int mode, type *const requests[restrict], int n,  \
			struct sigevent *restrict event)                  \
	{                                                                 \
		for (int i = 0; i < n; i++) {                             \
			if (requests[i])                                  \
				leave_to_kernel(requests[i]->aio_fildes); \
		}                                                         \
		return libc.name(mode, requests, n, event);               \
	}
LIO(lio_listio, struct aiocb)
LIO(lio_listio64, struct aiocb64)
#undef LIO
