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

/* The sixth argument points to the mask's address and its size (select(2)). */
static int pselect6(const struct args *x)
{
	const sigset_t *mask = NULL;

	if (x->f && user_read(&mask, PTR(f), sizeof(mask))) {
		errno = EFAULT;
		return -1;
	}
	return pselect(INT(a), PTR(b), PTR(c), PTR(d), PTR(e), mask);
}

/*
 * A signal mask has its size as a further argument, or is behind a pointer; ppoll() writes
 * its timeout.
 */
static bool wait_call(long nr, const struct args *x, long *rc)
{
	switch (nr) {
	case SYS_poll:
		*rc = poll(PTR(a), (nfds_t)x->b, INT(c));
		return true;
	case SYS_ppoll:
		*rc = ppoll(PTR(a), (nfds_t)x->b, PTR(c), PTR(d));
		return true;
	case SYS_select:
		*rc = select(INT(a), PTR(b), PTR(c), PTR(d), PTR(e));
		return true;
	case SYS_pselect6:
		*rc = pselect6(x);
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
	case SYS_epoll_pwait:
		*rc = epoll_pwait(INT(a), PTR(b), INT(c), INT(d), PTR(e));
		return true;
	case SYS_epoll_pwait2:
		*rc = epoll_pwait2(INT(a), PTR(b), INT(c), PTR(d), PTR(e));
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
	    wait_call(nr, &x, &rc))
		return rc;
	if (__builtin_expect(nr == SYS_io_uring_setup, 0))
		uring_used();
	else if (__builtin_expect(nr == SYS_exit_group, 0))
		_exit((int)x.a);
	return to_libc(sys_call6(nr, x.a, x.b, x.c, x.d, x.e, x.f), errno);
}
