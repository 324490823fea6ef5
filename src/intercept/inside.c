/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions of the C library that use or replace a descriptor inside, where our wrappers do not
 * see it. These do the same with calls that our wrappers do see.
 *
 * tests/lint/libc_calls.txt lists every function of the C library, and says which ones need this.
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

/* ---- messages ------------------------------------------------------------------------------ */

/* "text: reason", as one piece. */
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

/* The C library writes to a copy of the descriptor where the file has no orientation yet. */
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

/* One line, by way of a pipe: like the original, this allocates no memory. */
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
