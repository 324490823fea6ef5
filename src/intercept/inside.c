/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions of the C library that use or replace a descriptor internally, where our
 * wrappers are not called. Ours do the same with calls that are wrapped.
 *
 * tests/lint/libc_calls.txt lists every function of the C library, and says which ones need
 * this.
 */
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <paths.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <utmp.h>
#include <wchar.h>

#include "base/sys.h"
#include "intercept/wrap.h"

void __backtrace_symbols_fd(void *const *frames, int n, int fd);

/* ---- messages ---------------------------------------------------------------------- */

/* Writes "text: reason" with one call. */
static void write_message(int fd, const char *text, const char *reason)
{
	struct iovec parts[4];
	int n = 0;

	if (text && *text) {
		parts[n++] = (struct iovec){(void *)(uintptr_t)text, strlen(text)};
		parts[n++] = (struct iovec){(void *)(uintptr_t) ": ", 2};
	}
	parts[n++] = (struct iovec){(void *)(uintptr_t)reason, strlen(reason)};
	parts[n++] = (struct iovec){(void *)(uintptr_t) "\n", 1};
	/* A failure cannot be reported. */
	if (writev(fd, parts, n) < 0)
		return;
}

/* As long as the FILE has no orientation, the C library writes to a copy of its descriptor. */
EXPORT void perror(const char *text)
{
	int fd = fileno_unlocked(stderr), saved = errno;

	if (!fd_get(fd).sk || fwide(stderr, 0))
		return libc.perror(text);
	write_message(fd, text, strerror(saved));
	errno = saved;
}

EXPORT void herror(const char *text)
{
	if (!fd_get(STDERR_FILENO).sk)
		return libc.herror(text);
	write_message(STDERR_FILENO, text, hstrerror(h_errno));
}

/* Writes one line, through a pipe: like the original, this allocates no memory. */
static void write_frame(void *const *frame, const int pipe_fds[2], int fd)
{
	char line[1024];
	int left = 0;

	libc.backtrace_symbols_fd(frame, 1, pipe_fds[1]);
	do {
		ssize_t n = libc.read(pipe_fds[0], line, sizeof(line));

		if (n <= 0 || write(fd, line, (size_t)n) < 0)
			return;
	} while (!libc.ioctl(pipe_fds[0], FIONREAD, &left) && left > 0);
}

EXPORT void backtrace_symbols_fd(void *const *frames, int n, int fd)
{
	int pipe_fds[2];

	if (!fd_get(fd).sk || pipe(pipe_fds))
		return libc.backtrace_symbols_fd(frames, n, fd);
	for (int i = 0; i < n; i++)
		write_frame(&frames[i], pipe_fds, fd);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

EXPORT void __backtrace_symbols_fd(void *const *frames, int n, int fd)
{
	backtrace_symbols_fd(frames, n, fd);
}

/* ---- source filters ---------------------------------------------------------------- */

/*
 * Is it for a socket of ours? Ours are IPv4: the kernel answers for groups of other
 * families.
 */
static bool is_ours(int fd, const struct sockaddr *group, socklen_t len)
{
	return sock_get(fd).sk && len >= sizeof(struct sockaddr_in) &&
	       len <= sizeof(struct sockaddr_storage) && group->sa_family == AF_INET;
}

/* A filter with room for n sources, which the caller frees; NULL and ENOMEM. */
static struct group_filter *filter_of(uint32_t interface, const struct sockaddr *group,
				      socklen_t len, uint32_t n)
{
	struct group_filter *filter = calloc(1, GROUP_FILTER_SIZE((size_t)n));

	if (filter) {
		filter->gf_interface = interface;
		memcpy(&filter->gf_group, group, len);
		filter->gf_numsrc = n;
	}
	return filter;
}

EXPORT int setsourcefilter(int fd, uint32_t interface, const struct sockaddr *group, socklen_t len,
			   uint32_t mode, uint32_t n, const struct sockaddr_storage *sources)
{
	struct group_filter *filter;
	int rc, saved;

	if (!is_ours(fd, group, len))
		return libc.setsourcefilter(fd, interface, group, len, mode, n, sources);
	filter = filter_of(interface, group, len, n);
	if (!filter)
		return -1;
	filter->gf_fmode = mode;
	if (n)
		memcpy(filter->gf_slist, sources, n * sizeof(*sources));
	rc = setsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, filter, GROUP_FILTER_SIZE(n));
	saved = errno;
	free(filter);
	errno = saved;
	return rc;
}

/* *n: in: for how many sources there is room; out: how many there are. */
EXPORT int getsourcefilter(int fd, uint32_t interface, const struct sockaddr *group, socklen_t len,
			   uint32_t *mode, uint32_t *n, struct sockaddr_storage *sources)
{
	struct group_filter *filter;
	socklen_t size;
	int rc, saved;

	if (!is_ours(fd, group, len))
		return libc.getsourcefilter(fd, interface, group, len, mode, n, sources);
	filter = filter_of(interface, group, len, *n);
	if (!filter)
		return -1;
	size = GROUP_FILTER_SIZE(*n);
	rc = getsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, filter, &size);
	saved = errno;
	if (!rc) {
		uint32_t there = filter->gf_numsrc < *n ? filter->gf_numsrc : *n;

		*mode = filter->gf_fmode;
		if (there)
			memcpy(sources, filter->gf_slist, there * sizeof(*sources));
		*n = filter->gf_numsrc;
	}
	free(filter);
	errno = saved;
	return rc;
}

static struct ip_msfilter *ipv4_filter_of(struct in_addr interface, struct in_addr group,
					  uint32_t n)
{
	struct ip_msfilter *filter = calloc(1, IP_MSFILTER_SIZE((size_t)n) + sizeof(*filter));

	if (filter) {
		filter->imsf_multiaddr = group;
		filter->imsf_interface = interface;
		filter->imsf_numsrc = n;
	}
	return filter;
}

/* The list begins inside the structure, which declares one element of it. */
static void *sources_of(struct ip_msfilter *filter)
{
	return (char *)filter + offsetof(struct ip_msfilter, imsf_slist);
}

EXPORT int setipv4sourcefilter(int fd, struct in_addr interface, struct in_addr group,
			       uint32_t mode, uint32_t n, const struct in_addr *sources)
{
	struct ip_msfilter *filter;
	int rc, saved;

	filter = ipv4_filter_of(interface, group, n);
	if (!filter)
		return -1;
	filter->imsf_fmode = mode;
	if (n)
		memcpy(sources_of(filter), sources, n * sizeof(*sources));
	rc = setsockopt(fd, IPPROTO_IP, IP_MSFILTER, filter, IP_MSFILTER_SIZE(n));
	saved = errno;
	free(filter);
	errno = saved;
	return rc;
}

EXPORT int getipv4sourcefilter(int fd, struct in_addr interface, struct in_addr group,
			       uint32_t *mode, uint32_t *n, struct in_addr *sources)
{
	struct ip_msfilter *filter;
	socklen_t size;
	int rc, saved;

	filter = ipv4_filter_of(interface, group, *n);
	if (!filter)
		return -1;
	size = IP_MSFILTER_SIZE(*n);
	rc = getsockopt(fd, IPPROTO_IP, IP_MSFILTER, filter, &size);
	saved = errno;
	if (!rc) {
		uint32_t there = filter->imsf_numsrc < *n ? filter->imsf_numsrc : *n;

		*mode = filter->imsf_fmode;
		if (there)
			memcpy(sources, sources_of(filter), there * sizeof(*sources));
		*n = filter->imsf_numsrc;
	}
	free(filter);
	errno = saved;
	return rc;
}

/* ---- sessions ---------------------------------------------------------------------- */

/* Makes fd standard input, output and error. */
static int become_standard(int fd)
{
	for (int to = STDIN_FILENO; to <= STDERR_FILENO; to++) {
		/* EBUSY: another thread is opening that number. */
		while (dup2(fd, to) < 0) {
			if (errno != EBUSY && errno != EINTR)
				return -1;
		}
	}
	if (fd > STDERR_FILENO)
		close(fd);
	return 0;
}

EXPORT int login_tty(int fd)
{
	setsid();
	if (ioctl(fd, TIOCSCTTY, NULL))
		return -1;
	become_standard(fd);
	return 0;
}

EXPORT int forkpty(int *master, char *name, const struct termios *modes, const struct winsize *size)
{
	int ours, slave, pid;

	if (openpty(&ours, &slave, name, modes, size))
		return -1;
	pid = fork();
	if (pid == 0) {
		close(ours);
		if (login_tty(slave))
			_exit(1);
		return 0;
	}
	close(slave);
	if (pid < 0)
		close(ours);
	else
		*master = ours;
	return pid;
}

static int use_null_device(void)
{
	struct stat st;
	int fd = open(_PATH_DEVNULL, O_RDWR);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3)) {
		close(fd);
		errno = ENODEV;
		return -1;
	}
	become_standard(fd);
	return 0;
}

/* The parent ends by our _exit(), which offers its connections to the child. */
EXPORT int daemon(int stay_here, int keep_files)
{
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (pid > 0)
		_exit(0);
	if (setsid() < 0)
		return -1;
	/* As in the original, a failure is no error. */
	if (!stay_here)
		(void)chdir("/");
	return keep_files ? 0 : use_null_device();
}
