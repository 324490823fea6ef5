/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/image/sections.h"

#define HIDDEN_FD 512 /* programs number their descriptors from 0, and loop over some hundreds */

uint64_t sys_hidden_bits[SYS_HIDDEN_MAX / 64];
bool sys_hidden_closed EARLY_DATA;
static int highest_hidden EARLY_DATA =
	-1; /* any, atomic: an upper bound of the hidden descriptors */

static int open_files_limit(void)
{
	struct rlimit limit;

	if (sys_call(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit, 0, 0) < 0)
		return 0;
	return limit.rlim_cur > INT32_MAX ? INT32_MAX : (int)limit.rlim_cur;
}

/* Copies fd to a number above those that programs use; negative if none is free. */
EARLY_CODE static int copy_away(int fd)
{
	int hidden = sys_fcntl(fd, F_DUPFD_CLOEXEC, HIDDEN_FD);

	if (hidden < 0) {
		/* The limit is low: try numbers close to it. */
		int limit = open_files_limit();

		for (int below = 1; hidden < 0 && limit - below > fd; below *= 2)
			hidden = sys_fcntl(fd, F_DUPFD_CLOEXEC, limit - below);
	}
	return hidden;
}

/* sys_fd_hide() without the registration. */
EARLY_CODE static int move_away(int fd)
{
	int hidden;

	if (fd >= HIDDEN_FD) {
		sys_fcntl(fd, F_SETFD, FD_CLOEXEC);
		return fd;
	}
	hidden = copy_away(fd);
	if (hidden < 0) {
		sys_fcntl(fd, F_SETFD, FD_CLOEXEC);
		return fd;
	}
	sys_close(fd);
	return hidden;
}

EARLY_CODE static void register_hidden(int fd)
{
	int seen;

	if (fd >= SYS_HIDDEN_MAX)
		return;
	seen = __atomic_load_n(&highest_hidden, __ATOMIC_RELAXED);
	while (seen < fd && !__atomic_compare_exchange_n(&highest_hidden, &seen, fd, true,
							 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	__atomic_fetch_or(&sys_hidden_bits[fd / 64], 1ull << (fd % 64), __ATOMIC_RELAXED);
}

EARLY_CODE int sys_fd_hide(int fd)
{
	if (fd < 0)
		return fd;
	fd = move_away(fd);
	register_hidden(fd);
	return fd;
}

int sys_fd_copy(int fd)
{
	int copy = copy_away(fd);

	if (copy < 0)
		copy = sys_fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy >= 0)
		register_hidden(copy);
	return copy;
}

void sys_fd_unhide(int fd)
{
	if ((unsigned)fd < SYS_HIDDEN_MAX)
		__atomic_fetch_and(&sys_hidden_bits[fd / 64], ~(1ull << (fd % 64)),
				   __ATOMIC_RELAXED);
}

EARLY_CODE int sys_fd_next_hidden(int from)
{
	int last = __atomic_load_n(&highest_hidden, __ATOMIC_RELAXED);

	if (from < 0)
		from = 0;
	while (from <= last) {
		uint64_t bits = __atomic_load_n(&sys_hidden_bits[from / 64], __ATOMIC_RELAXED) >>
				(from % 64);

		if (bits)
			return from + __builtin_ctzll(bits);
		from = (from / 64 + 1) * 64;
	}
	return -1;
}

/* One call for a run of them; before Linux 5.9, one for each. */
EARLY_CODE static void close_run(int first, int last)
{
	if (first > last || sys_call(SYS_close_range, first, last, 0, 0, 0, 0) >= 0)
		return;
	for (int fd = first; fd <= last; fd++)
		sys_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

EARLY_CODE void sys_fd_close_hidden(int but)
{
	int first = sys_fd_next_hidden(0), last;

	for (; first >= 0; first = sys_fd_next_hidden(last + 1)) {
		last = first;
		while (sys_fd_is_hidden(last + 1))
			last++;
		if (but < first || but > last) {
			close_run(first, last);
		} else {
			close_run(first, but - 1);
			close_run(but + 1, last);
		}
	}
	sys_hidden_closed = true;
}

void sys_fd_forget_all(void)
{
	if (!sys_hidden_closed)
		sys_fd_close_hidden(-1);
	for (int fd = sys_fd_next_hidden(0); fd >= 0; fd = sys_fd_next_hidden(fd + 1))
		sys_fd_unhide(fd);
	sys_hidden_closed = false;
}

ssize_t sys_read_text(const char *path, char *text, size_t size)
{
	int fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	ssize_t n;

	text[0] = '\0';
	if (fd < 0)
		return fd;
	n = sys_read(fd, text, size);
	sys_close(fd);
	if (n >= 0 && (size_t)n == size)
		n = -E2BIG;
	text[n < 0 ? 0 : n] = '\0';
	return n;
}

int sys_read_nth_number(const char *path, unsigned skip, int otherwise)
{
	char text[64], *at = text;
	ssize_t n = sys_read_text(path, text, sizeof(text));

	for (; skip && *at; skip--) {
		at += strcspn(at, " \t");
		at += strspn(at, " \t");
	}
	return n > 0 && *at ? atoi(at) : otherwise;
}

int sys_read_number(const char *path, int otherwise)
{
	return sys_read_nth_number(path, 0, otherwise);
}

uint64_t sys_socket_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) ? 0 : cookie;
}

uint64_t sys_inode_of(int fd, const char *path)
{
	struct stat st;
	long rc = fd < 0 ? sys_call(SYS_stat, path, &st, 0, 0, 0, 0)
			 : sys_call(SYS_fstat, fd, &st, 0, 0, 0, 0);

	return rc ? 0 : st.st_ino;
}

uint64_t sys_network_namespace(void)
{
	return sys_inode_of(-1, "/proc/thread-self/ns/net");
}
