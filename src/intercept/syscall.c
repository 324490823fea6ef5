/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * syscall(2): a program that makes a call by its number means the same sockets. Calls that
 * cannot be about descriptors of ours are made unchanged.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/user.h"
#include "intercept/uring.h"
#include "intercept/wrap.h"

struct args {
	long a, b, c, d, e, f;
};

#define PTR(n) ((void *)(uintptr_t)x->n)
#define INT(n) ((int)x->n)
#define LEN(n) ((size_t)x->n)

/* Calls that transfer data of a descriptor. False: nr is none of these. */
static bool data_call(long nr, const struct args *x, long *rc)
{
	switch (nr) {
	case SYS_read:
		*rc = read(INT(a), PTR(b), LEN(c));
		return true;
	case SYS_write:
		*rc = write(INT(a), PTR(b), LEN(c));
		return true;
	case SYS_readv:
		*rc = readv(INT(a), PTR(b), INT(c));
		return true;
	case SYS_writev:
		*rc = writev(INT(a), PTR(b), INT(c));
		return true;
	case SYS_recvfrom:
		*rc = recvfrom(INT(a), PTR(b), LEN(c), INT(d), PTR(e), PTR(f));
		return true;
	case SYS_sendto:
		*rc = sendto(INT(a), PTR(b), LEN(c), INT(d), PTR(e), (socklen_t)x->f);
		return true;
	case SYS_recvmsg:
		*rc = recvmsg(INT(a), PTR(b), INT(c));
		return true;
	case SYS_sendmsg:
		*rc = sendmsg(INT(a), PTR(b), INT(c));
		return true;
	case SYS_recvmmsg:
		*rc = recvmmsg(INT(a), PTR(b), (unsigned)x->c, INT(d), PTR(e));
		return true;
	case SYS_sendmmsg:
		*rc = sendmmsg(INT(a), PTR(b), (unsigned)x->c, INT(d));
		return true;
	case SYS_sendfile:
		*rc = sendfile(INT(a), INT(b), PTR(c), LEN(d));
		return true;
	case SYS_splice:
		*rc = splice(INT(a), PTR(b), INT(c), PTR(d), LEN(e), (unsigned)x->f);
		return true;
	}
	return false;
}

static bool socket_call(long nr, const struct args *x, long *rc)
{
	switch (nr) {
	case SYS_socket:
		*rc = socket(INT(a), INT(b), INT(c));
		return true;
	case SYS_accept:
		*rc = accept(INT(a), PTR(b), PTR(c));
		return true;
	case SYS_accept4:
		*rc = accept4(INT(a), PTR(b), PTR(c), INT(d));
		return true;
	case SYS_bind:
		*rc = bind(INT(a), PTR(b), (socklen_t)x->c);
		return true;
	case SYS_connect:
		*rc = connect(INT(a), PTR(b), (socklen_t)x->c);
		return true;
	case SYS_listen:
		*rc = listen(INT(a), INT(b));
		return true;
	case SYS_shutdown:
		*rc = shutdown(INT(a), INT(b));
		return true;
	case SYS_getsockname:
		*rc = getsockname(INT(a), PTR(b), PTR(c));
		return true;
	case SYS_getpeername:
		*rc = getpeername(INT(a), PTR(b), PTR(c));
		return true;
	case SYS_getsockopt:
		*rc = getsockopt(INT(a), INT(b), INT(c), PTR(d), PTR(e));
		return true;
	case SYS_setsockopt:
		*rc = setsockopt(INT(a), INT(b), INT(c), PTR(d), (socklen_t)x->e);
		return true;
	}
	return false;
}

static bool fd_call(long nr, const struct args *x, long *rc)
{
	switch (nr) {
	case SYS_close:
		*rc = close(INT(a));
		return true;
	case SYS_close_range:
		*rc = close_range((unsigned)x->a, (unsigned)x->b, INT(c));
		return true;
	case SYS_dup:
		*rc = dup(INT(a));
		return true;
	case SYS_dup2:
		*rc = dup2(INT(a), INT(b));
		return true;
	case SYS_dup3:
		*rc = dup3(INT(a), INT(b), INT(c));
		return true;
	case SYS_fcntl:
		*rc = fcntl(INT(a), INT(b), PTR(c));
		return true;
	case SYS_ioctl:
		*rc = ioctl(INT(a), (unsigned long)x->b, PTR(c));
		return true;
	case SYS_setns:
		*rc = setns(INT(a), INT(b));
		return true;
	case SYS_unshare:
		*rc = unshare(INT(a));
		return true;
	case SYS_execve:
		*rc = execve(PTR(a), PTR(b), PTR(c));
		return true;
	case SYS_execveat:
		*rc = execveat(INT(a), PTR(b), PTR(c), PTR(d), INT(e));
		return true;
	}
	return false;
}

#define KERNEL_SIGSET ((size_t)8) /* bytes; the C library's masks are larger */

/*
 * Does the kernel get the call as it is? It returns the error for a timeout that cannot be
 * read, and for a mask that cannot be read or has another size; or nothing is ours.
 */
static bool is_for_kernel(const void *timeout, const void *mask, size_t size)
{
	return !may_have_ours() || (timeout && !user_can_read(timeout, sizeof(struct timespec))) ||
	       (mask && (size != KERNEL_SIGSET || !user_can_read(mask, size)));
}

/* What the sixth argument of pselect6 points to (select(2)). */
struct pselect_mask {
	const sigset_t *mask;
	size_t size;
};

static bool pselect6(const struct args *x, long *rc)
{
	struct pselect_mask given = {NULL, 0};

	if ((x->f && user_read(&given, PTR(f), sizeof(given))) ||
	    is_for_kernel(PTR(e), given.mask, given.size))
		return false;
	*rc = pselect(INT(a), PTR(b), PTR(c), PTR(d), PTR(e), given.mask);
	return true;
}

/*
 * A signal mask has its size as a further argument, or is behind a pointer; ppoll() writes
 * its timeout.
 */
static bool masked_call(long nr, const struct args *x, long *rc)
{
	switch (nr) {
	case SYS_ppoll:
		if (is_for_kernel(PTR(c), PTR(d), LEN(e)))
			return false;
		*rc = ppoll(PTR(a), (nfds_t)x->b, PTR(c), PTR(d));
		return true;
	case SYS_pselect6:
		return pselect6(x, rc);
	case SYS_epoll_pwait:
		if (is_for_kernel(NULL, PTR(e), LEN(f)))
			return false;
		*rc = epoll_pwait(INT(a), PTR(b), INT(c), INT(d), PTR(e));
		return true;
	case SYS_epoll_pwait2:
		if (is_for_kernel(PTR(d), PTR(e), LEN(f)))
			return false;
		*rc = epoll_pwait2(INT(a), PTR(b), INT(c), PTR(d), PTR(e));
		return true;
	}
	return false;
}

static bool wait_call(long nr, const struct args *x, long *rc)
{
	switch (nr) {
	case SYS_poll:
		*rc = poll(PTR(a), (nfds_t)x->b, INT(c));
		return true;
	case SYS_select:
		if (is_for_kernel(PTR(e), NULL, 0))
			return false;
		*rc = select(INT(a), PTR(b), PTR(c), PTR(d), PTR(e));
		return true;
	case SYS_epoll_create:
		*rc = epoll_create(INT(a));
		return true;
	case SYS_epoll_create1:
		*rc = epoll_create1(INT(a));
		return true;
	case SYS_epoll_ctl:
		*rc = epoll_ctl(INT(a), INT(b), INT(c), PTR(d));
		return true;
	case SYS_epoll_wait:
		*rc = epoll_wait(INT(a), PTR(b), INT(c), INT(d));
		return true;
	}
	return false;
}

EXPORT long syscall(long nr, ...)
{
	struct args x;
	va_list args;
	long rc;

	va_start(args, nr);
	x.a = va_arg(args, long);
	x.b = va_arg(args, long);
	x.c = va_arg(args, long);
	x.d = va_arg(args, long);
	x.e = va_arg(args, long);
	x.f = va_arg(args, long);
	va_end(args);
	if (data_call(nr, &x, &rc) || socket_call(nr, &x, &rc) || fd_call(nr, &x, &rc) ||
	    wait_call(nr, &x, &rc) || masked_call(nr, &x, &rc))
		return rc;
	if (__builtin_expect(nr == SYS_io_uring_setup, 0))
		uring_used();
	else if (__builtin_expect(nr == SYS_exit_group, 0))
		_exit((int)x.a);
	return to_libc(sys_call6(nr, x.a, x.b, x.c, x.d, x.e, x.f), errno);
}
