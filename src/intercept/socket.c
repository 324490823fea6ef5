/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that make a socket, bind and connect it, and read and set its options. */
#include <fcntl.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "base/sys.h"
#include "base/user.h"
#include "intercept/extra.h"
#include "intercept/stdio.h"
#include "intercept/uring.h"
#include "intercept/wrap.h"
#include "sock/core/extra/xtreme.h"

#define TYPE_FLAGS (SOCK_NONBLOCK | SOCK_CLOEXEC)

/* False: no memory, or acceleration cannot start. */
static bool make_object(int fd, int domain, int type, int protocol)
{
	struct sock_ref ref;

	stdio_init();
	clock_init();
	signal_watch_faults();
	ref = sock_create(fd, domain, type & ~TYPE_FLAGS, protocol, type & SOCK_NONBLOCK);
	if (ref.sk && !fd_install(fd, ref)) {
		sock_close(ref);
		return false;
	}
	if (ref.sk && xtreme_is_on())
		xtreme_begin(ref, fd);
	return ref.sk != NULL;
}

/* Makes the object of a new socket, or finds why there is none. */
static enum verdict begin(int fd, int domain, int type, int protocol)
{
	enum verdict why = VERDICT_UNDECIDED;

	if (!extra_offloads())
		why = VERDICT_DISABLED;
	else if (uring_is_used())
		why = VERDICT_CALL;
	else if (!make_object(fd, domain, type, protocol))
		return VERDICT_NO_RESOURCES; /* it was counted */
	if (why != VERDICT_UNDECIDED)
		verdict_count(why);
	return why;
}

/* VMA_STRICT: may the program have a socket that the kernel serves?  0, or the error of the call. */
static int refuse(int domain, enum verdict why)
{
	static int told; /* any, atomic */

	if (!params.strict || !verdict_is_fallback(why))
		return 0;
	if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		log_error("socket(%s): %s; it must be accelerated (VMA_STRICT), so the call fails",
			  domain == AF_INET6 ? "AF_INET6" : "AF_INET", verdict_text(why));
	return EOPNOTSUPP;
}

EXPORT int socket(int domain, int type, int protocol)
{
	int saved = errno, fd = libc.socket(domain, type, protocol), error;

	if (fd < 0)
		return fd;
	fd_fresh(fd);
	if ((domain != AF_INET && domain != AF_INET6) ||
	    !sock_is_ours(type & ~TYPE_FLAGS, protocol) || fork_is_vfork_child())
		return fd;
	start();
	error = refuse(domain, begin(fd, domain, type, protocol));
	if (error) {
		sys_close(fd);
		fd = -1;
		saved = error;
	}
	errno = saved;
	return fd;
}

EXPORT int socketpair(int domain, int type, int protocol, int fds[2])
{
	int rc = libc.socketpair(domain, type, protocol, fds);

	if (!rc) {
		fd_fresh(fds[0]);
		fd_fresh(fds[1]);
	}
	return rc;
}

int socket_accept(struct sock_ref ref, struct sockaddr_storage *from, socklen_t *len, int flags,
		  struct sock_ref *child)
{
	int fd;

	child->sk = NULL;
	fd = sock_ops_of(ref.sk)->accept(ref, (struct sockaddr *)from, len, flags, child);
	if (fd < 0)
		return fd;
	fd_fresh(fd);
	if (child->sk && !fd_install(fd, *child)) {
		sock_close(*child);
		sys_close(fd);
		return -ENOBUFS;
	}
	return fd;
}

static int do_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct sock_ref child;
	struct sockaddr_storage from;
	socklen_t full = sizeof(from);
	int fd = socket_accept(ref, &from, &full, flags, &child), rc = 0;

	if (fd < 0)
		return fd;
	if (addr)
		rc = user_write_address(addr, len, (struct sockaddr *)&from, full);
	if (rc) { /* as the kernel: the connection is closed */
		fd_drop(fd);
		sys_close(fd);
		return rc;
	}
	if (child.sk && xtreme_is_on())
		xtreme_begin(child, fd);
	return fd;
}

EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno, rc = SOCK_KERNEL;

	/* The kernel returns the error for unknown flags. */
	if (ref.sk && !(flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)))
		rc = do_accept(ref, addr, len, flags);
	if (rc == SOCK_KERNEL)
		return fd_fresh(libc.accept4(fd, addr, len, flags));
	return (int)to_libc(rc, saved);
}

EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno, rc = SOCK_KERNEL;

	if (ref.sk)
		rc = do_accept(ref, addr, len, 0);
	if (rc == SOCK_KERNEL)
		return fd_fresh(libc.accept(fd, addr, len));
	return (int)to_libc(rc, saved);
}

EXPORT int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno, rc;

	if (!ref.sk)
		return libc.bind(fd, addr, len);
	rc = sock_ops_of(ref.sk)->bind(ref, addr, len);
	return rc == SOCK_KERNEL ? libc.bind(fd, addr, len) : (int)to_libc(rc, saved);
}

/* False: the kernel will refuse the length, or cannot read it. */
static bool read_address(struct sockaddr_storage *to, const struct sockaddr *addr, socklen_t len)
{
	return len >= sizeof(sa_family_t) && len <= sizeof(*to) && !user_read(to, addr, len);
}

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sock_ref ref = sock_get(fd);
	struct sockaddr_storage to;
	int saved = errno, rc;

	if (!ref.sk)
		return libc.connect(fd, addr, len);
	if (!read_address(&to, addr, len))
		return libc.connect(fd, addr, len); /* the kernel returns the error */
	rc = sock_ops_of(ref.sk)->connect(ref, (struct sockaddr *)&to, len);
	return rc == SOCK_KERNEL ? libc.connect(fd, addr, len) : (int)to_libc(rc, saved);
}

EXPORT int listen(int fd, int backlog)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno, rc;

	if (!ref.sk)
		return libc.listen(fd, backlog);
	rc = sock_ops_of(ref.sk)->listen(ref, backlog);
	return rc == SOCK_KERNEL ? libc.listen(fd, backlog) : (int)to_libc(rc, saved);
}

EXPORT int shutdown(int fd, int how)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno, rc;

	if (!ref.sk)
		return libc.shutdown(fd, how);
	rc = sock_ops_of(ref.sk)->shutdown(ref, how);
	return rc == SOCK_KERNEL ? libc.shutdown(fd, how) : (int)to_libc(rc, saved);
}

EXPORT int getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct sock_ref ref = sock_get(fd);
	struct sockaddr_storage name;
	socklen_t full = sizeof(name);
	int saved = errno, rc;

	if (!ref.sk)
		return libc.getsockname(fd, addr, len);
	rc = sock_ops_of(ref.sk)->getsockname(ref, (struct sockaddr *)&name, &full);
	if (rc == SOCK_KERNEL)
		return libc.getsockname(fd, addr, len);
	if (!rc)
		rc = user_write_address(addr, len, (struct sockaddr *)&name, full);
	return (int)to_libc(rc, saved);
}

EXPORT int getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct sock_ref ref = sock_get(fd);
	struct sockaddr_storage name;
	socklen_t full = sizeof(name);
	int saved = errno, rc;

	if (!ref.sk)
		return libc.getpeername(fd, addr, len);
	rc = sock_ops_of(ref.sk)->getpeername(ref, (struct sockaddr *)&name, &full);
	if (rc == SOCK_KERNEL)
		return libc.getpeername(fd, addr, len);
	if (!rc)
		rc = user_write_address(addr, len, (struct sockaddr *)&name, full);
	return (int)to_libc(rc, saved);
}

EXPORT int getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno, rc;

	if (!ref.sk) {
		if (fd == -1 && extra_get_api(level, name, val, len, &rc))
			return (int)to_libc(rc, saved);
		return libc.getsockopt(fd, level, name, val, len);
	}
	rc = sock_ops_of(ref.sk)->getsockopt(ref, level, name, val, len);
	return rc == SOCK_KERNEL ? libc.getsockopt(fd, level, name, val, len)
				 : (int)to_libc(rc, saved);
}

EXPORT int setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno, rc;

	if (!ref.sk)
		return libc.setsockopt(fd, level, name, val, len);
	rc = sock_ops_of(ref.sk)->setsockopt(ref, level, name, val, len);
	return rc == SOCK_KERNEL ? libc.setsockopt(fd, level, name, val, len)
				 : (int)to_libc(rc, saved);
}
