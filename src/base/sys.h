/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls for the library's own use.
 *
 * They go directly to the kernel: the library replaces the C library's functions of
 * these names, and none of these changes errno.
 *
 * Role		any thread, signal handlers included.
 * Errors	-errno.
 */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>

static inline long sys_call6(long nr, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#else
#error "sys_call6: add the system call sequence of this architecture"
#endif
}

#define sys_call(nr, a, b, c, d, e, f) \
	sys_call6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* ---- descriptors of the library ---------------------------------------------------- */

/*
 * Hidden descriptors belong to the library.  The program must not close them even when it
 * closes every descriptor it does not know: intercept refuses close(), closefrom(),
 * close_range() and dup2() onto them.
 *
 * Role		any thread, signal handlers included.
 * Ordering	none: a number is hidden before any code but the library's knows it,
 *		and unhidden before it is closed.
 * Progress	lock-free, one bit per number.  Numbers past the last bit are not
 *		protected, and raw system calls can still close hidden ones.
 *
 * Libraries that are linked into ours close with close(), which is intercepted:
 * call sys_fd_unhide() before such a library closes a hidden descriptor.
 */
#define SYS_HIDDEN_MAX (1 << 20)
extern uint64_t sys_hidden_bits[SYS_HIDDEN_MAX / 64];

static inline bool sys_fd_is_hidden(int fd)
{
	if ((unsigned)fd >= SYS_HIDDEN_MAX)
		return false;
	return __atomic_load_n(&sys_hidden_bits[fd / 64], __ATOMIC_RELAXED) >> (fd % 64) & 1;
}

/*
 * Moves a descriptor of the library away from the program's numbers: close-on-exec and at 512 or
 * above (or as high as RLIMIT_NOFILE allows). Consumes fd; returns the new descriptor, or fd
 * itself when none is free up there. A negative fd is returned as is.
 */
int sys_fd_hide(int fd);

/* Returns a hidden copy of fd, as sys_fd_hide(dup(fd)) in one step; or -errno. */
int sys_fd_copy(int fd);

/* Makes fd an ordinary descriptor, before other code closes it. */
void sys_fd_unhide(int fd);

/* The lowest hidden descriptor at or above `from`, or -1. */
int sys_fd_next_hidden(int from);

/*
 * In a forked child: closes all hidden descriptors except `but` (-1: none). Their owners still have
 * the numbers: until sys_fd_forget_all(), sys_close() of a hidden descriptor only unhides it.
 */
void sys_fd_close_hidden(int but);
/* Written in a forked child, by the only thread that uses hidden descriptors. */
extern bool sys_hidden_closed;

/* In a forked child: closes all hidden descriptors. Their owners must forget the numbers. */
void sys_fd_forget_all(void);

/* ---- system calls ------------------------------------------------------------------ */

static inline ssize_t sys_sendto(int fd, const void *buf, size_t len, int flags,
				 const struct sockaddr *to, socklen_t tolen)
{
	return sys_call(SYS_sendto, fd, buf, len, flags, to, tolen);
}

static inline ssize_t sys_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from,
				   socklen_t *fromlen)
{
	return sys_call(SYS_recvfrom, fd, buf, len, flags, from, fromlen);
}

static inline ssize_t sys_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return sys_call(SYS_sendmsg, fd, msg, flags, 0, 0, 0);
}

static inline ssize_t sys_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return sys_call(SYS_recvmsg, fd, msg, flags, 0, 0, 0);
}

static inline int sys_socket(int domain, int type, int protocol)
{
	return (int)sys_call(SYS_socket, domain, type, protocol, 0, 0, 0);
}

static inline int sys_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	return (int)sys_call(SYS_bind, fd, addr, len, 0, 0, 0);
}

static inline int sys_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return (int)sys_call(SYS_connect, fd, addr, len, 0, 0, 0);
}

static inline int sys_listen(int fd, int backlog)
{
	return (int)sys_call(SYS_listen, fd, backlog, 0, 0, 0, 0);
}

static inline int sys_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return (int)sys_call(SYS_accept4, fd, addr, len, flags, 0, 0);
}

static inline int sys_shutdown(int fd, int how)
{
	return (int)sys_call(SYS_shutdown, fd, how, 0, 0, 0, 0);
}

static inline int sys_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	return (int)sys_call(SYS_getsockname, fd, addr, len, 0, 0, 0);
}

static inline int sys_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	return (int)sys_call(SYS_getpeername, fd, addr, len, 0, 0, 0);
}

static inline int sys_setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	return (int)sys_call(SYS_setsockopt, fd, level, name, val, len, 0);
}

static inline int sys_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	return (int)sys_call(SYS_getsockopt, fd, level, name, val, len, 0);
}

/* Unhides the descriptor if it is hidden. */
static inline int sys_close(int fd)
{
	/* Before the close: afterwards the program may reuse the number. */
	if (sys_fd_is_hidden(fd)) {
		sys_fd_unhide(fd);
		if (__builtin_expect(sys_hidden_closed, 0))
			return 0;
	}
	return (int)sys_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* Closes *fd if it is not negative, and sets it to -1. */
static inline void sys_close_fd(int *fd)
{
	if (*fd >= 0)
		sys_close(*fd);
	*fd = -1;
}

static inline ssize_t sys_read(int fd, void *buf, size_t len)
{
	return sys_call(SYS_read, fd, buf, len, 0, 0, 0);
}

static inline ssize_t sys_write(int fd, const void *buf, size_t len)
{
	return sys_call(SYS_write, fd, buf, len, 0, 0, 0);
}

/*
 * Reads a small file, for example of /proc, as zero-terminated text. Returns its length, -E2BIG
 * if it does not fit, or another -errno.
 */
ssize_t sys_read_text(const char *path, char *text, size_t size);
/* The number in a file of /proc/sys; `otherwise` if it cannot be read. */
int sys_read_number(const char *path, int otherwise);
/* The number after `skip` others. */
int sys_read_nth_number(const char *path, unsigned skip, int otherwise);
/* SO_COOKIE: the number by which the kernel names a socket; 0: it is closed, or the kernel does not tell. */
uint64_t sys_socket_cookie(int fd);
/* The inode number of an open file, or of path if fd is negative; 0: unknown. */
uint64_t sys_inode_of(int fd, const char *path);
/* The number of the calling thread's network namespace: the inode of /proc/thread-self/ns/net; 0: unknown. */
uint64_t sys_network_namespace(void);

static inline int sys_open(const char *path, int flags, int mode)
{
	return (int)sys_call(SYS_open, path, flags, mode, 0, 0, 0);
}

static inline int sys_fcntl(int fd, int cmd, long arg)
{
	return (int)sys_call(SYS_fcntl, fd, cmd, arg, 0, 0, 0);
}

static inline int sys_ioctl(int fd, unsigned long cmd, void *arg)
{
	return (int)sys_call(SYS_ioctl, fd, cmd, arg, 0, 0, 0);
}

static inline int sys_eventfd(unsigned init, int flags)
{
	return (int)sys_call(SYS_eventfd2, init, flags, 0, 0, 0, 0);
}

/* timeout: the kernel stores the remaining time there; NULL: no timeout. */
static inline int sys_ppoll(struct pollfd *fds, nfds_t n, struct timespec *timeout,
			    const sigset_t *mask)
{
	return (int)sys_call(SYS_ppoll, fds, n, timeout, mask, 8 /* kernel sigset */, 0);
}

/* Sleeps; a signal may end it early.  Each call sleeps anew, also in a loop. */
static inline void sys_sleep(int64_t nsec)
{
	struct timespec ts = {nsec / 1000000000, nsec % 1000000000};

	sys_ppoll(NULL, 0, &ts, NULL);
}

static inline int sys_gettid(void)
{
	return (int)sys_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

static inline pid_t sys_getpid(void)
{
	return (pid_t)sys_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/*
 * Is the caller the first process that asks for *first, of those that have forked each other since?  *first is 0
 * at first.  For what a process does once, and those that it forks need not do again.
 */
static inline bool sys_is_first(pid_t *first)
{
	pid_t self = sys_getpid();

	if (!*first)
		*first = self;
	return *first == self;
}

static inline uid_t sys_geteuid(void)
{
	return (uid_t)sys_call(SYS_geteuid, 0, 0, 0, 0, 0, 0);
}

static inline int sys_sched_yield(void)
{
	return (int)sys_call(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

/*
 * How often another thread took the processor from this one, or got it by this one's yield
 * (ru_nivcsw, getrusage(2)); negative: the kernel does not say.
 */
static inline long sys_switches(void)
{
	struct rusage usage;
	long rc = sys_call(SYS_getrusage, RUSAGE_THREAD, &usage, 0, 0, 0, 0);

	return rc < 0 ? rc : usage.ru_nivcsw;
}

static inline int sys_membarrier(int cmd)
{
	return (int)sys_call(SYS_membarrier, cmd, 0, 0, 0, 0, 0);
}

/* attr: union bpf_attr of <linux/bpf.h>, size bytes. */
static inline int sys_bpf(int cmd, void *attr, unsigned size)
{
	return (int)sys_call(SYS_bpf, cmd, attr, size, 0, 0, 0);
}

#endif
