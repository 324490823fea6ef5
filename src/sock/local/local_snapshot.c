/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "base/unix_socket.h"
#include "sock/local/local_move.h"
#include "sock/local/local_sock.h"

#define MAGIC 0x316d766cu /* "lvm1" */

/* One message, which is in the socket as long as a descriptor of it is open. */
int local_snapshot_write(const void *head, size_t size, const struct local_snapshot *snapshot)
{
	struct local_snapshot s = *snapshot;
	struct iovec iov[] = {{(void *)(uintptr_t)head, size}, {&s, sizeof(s)}};
	ssize_t rc;
	int fds[2];

	rc = sys_call(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		      fds, 0, 0);
	if (rc)
		return (int)rc;
	s.magic = MAGIC;
	s.size = (uint32_t)(sizeof(s) + size);
	rc = unix_socket_send(fds[0], iov, 2, &snapshot->fd, 1);
	sys_close(fds[0]);
	if (rc >= 0)
		return sys_fd_hide(fds[1]);
	sys_close(fds[1]);
	return (int)rc;
}

bool local_snapshot_is(int fd)
{
	struct stat st;

	return !sys_call(SYS_fstat, fd, &st, 0, 0, 0, 0) && S_ISSOCK(st.st_mode);
}

static bool is_flag(uint8_t byte)
{
	return byte <= 1;
}

static bool is_sane(const struct local_snapshot *s)
{
	return local_is_capacity(s->capacity) && s->slot < LOCAL_CHUNK &&
	       s->wants_space <= s->capacity && s->peek_offset >= 0 && is_flag(s->initiator) &&
	       is_flag(s->reported) && is_flag(s->ended) && is_flag(s->died);
}

int local_snapshot_read(int fd, void *head, size_t size, struct local_snapshot *s)
{
	struct iovec iov[] = {{head, size}, {s, sizeof(*s)}};
	int segment = -1;
	unsigned n_fds;
	ssize_t n = unix_socket_receive(fd, iov, 2, MSG_PEEK, &segment, 1, &n_fds);

	if (segment >= 0 && n == (ssize_t)(size + sizeof(*s)) && s->magic == MAGIC &&
	    s->size == sizeof(*s) + size && is_sane(s)) {
		s->fd = segment;
		return 0;
	}
	sys_close_fd(&segment);
	return -EINVAL;
}
