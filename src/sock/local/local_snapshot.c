/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "base/unix_socket.h"
#include "sock/local/local_move.h"
#include "sock/local/local_sock.h"

#define MAGIC 0x316d766cu /* "lvm1" */

struct local_snapshot local_snapshot_of(const struct inet_sock *so)
{
	const struct shm_state *shm = &so->shm;
	struct local_snapshot s;

	memset(&s, 0, sizeof(s)); /* no byte of it is left to chance */
	s.slot = shm->slot;
	s.capacity = shm->in.capacity;
	s.token = shm->token;
	s.seen = shm->seen;
	s.urgent_done = shm->urgent_done;
	s.moves_seen = shm->moves_seen;
	s.wants_space = shm->wants_space;
	s.peek_offset = shm->peek_offset;
	s.initiator = shm->initiator;
	s.reported = shm->reported;
	s.ended = shm->ended;
	s.died = shm->died;
	s.error = shm->error;
	s.kept_error = shm->kept_error;
	s.fd = -1;
	return s;
}

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

/* ---- the lock: of the open file, so neither fork() nor another close() ends it ---------------- */

static struct flock lock_of(uint32_t slot, unsigned side, short type)
{
	return (struct flock){.l_type = type,
			      .l_whence = SEEK_SET,
			      .l_start = 2 * (off_t)slot + side,
			      .l_len = 1};
}

/* Shared: the end may leave a process that has not ended its own. */
int local_transit_begin(int fd, uint32_t slot, unsigned side)
{
	struct flock lock = lock_of(slot, side, F_RDLCK);
	char path[32];
	int own, rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = sys_fd_hide(sys_open(path, O_RDWR | O_CLOEXEC, 0));
	if (own < 0)
		return own;
	rc = sys_fcntl(own, F_OFD_SETLK, (long)&lock);
	if (!rc)
		return own;
	sys_close(own);
	return rc;
}

void local_transit_end(int fd, uint32_t slot, unsigned side)
{
	struct flock lock = lock_of(slot, side, F_UNLCK);

	sys_fcntl(fd, F_OFD_SETLK, (long)&lock);
}

bool local_transit_is_over(int fd, uint32_t slot, unsigned side)
{
	struct flock lock = lock_of(slot, side, F_WRLCK);

	return !sys_fcntl(fd, F_OFD_GETLK, (long)&lock) && lock.l_type == F_UNLCK;
}
