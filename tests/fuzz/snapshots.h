/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots of local connections that another process has changed. */
#ifndef TESTS_FUZZ_SNAPSHOTS_H
#define TESTS_FUZZ_SNAPSHOTS_H

#include <sys/socket.h>
#include <unistd.h>

#include "base/unix_socket.h"
#include "fuzz/descriptors.h"
#include "fuzz/input.h"

static inline void change_bytes(struct input *in, uint8_t *bytes, size_t size)
{
	unsigned n = take8(in) % 8;

	/* Large offsets are of the end, where the struct of this room is. */
	while (n--) {
		uint16_t at = take16(in);

		bytes[at & 0x8000 ? size - 1 - (at & 0x7fff) % size : at % size] ^= take8(in);
	}
}

/*
 * What a process says that has, or had, the socket: the snapshot with changes.  A descriptor.
 * other: a second one to send.
 */
static inline int change_snapshot(struct input *in, int from, int other)
{
	static uint8_t bytes[4096];
	struct iovec iov = {bytes, sizeof(bytes)};
	int segment = -1, fds[2], sent[2];
	uint8_t what;
	unsigned n;
	ssize_t size = unix_socket_receive(from, &iov, 1, MSG_PEEK, &segment, 1, &n);

	check(size > 0 && n == 1);
	iov.iov_len = (size_t)size;
	change_bytes(in, bytes, iov.iov_len);
	what = take8(in);
	if (what & 0x80)
		iov.iov_len -= take8(in) % iov.iov_len;
	sent[0] = make_descriptor(what % DESCRIPTORS, segment, segment);
	sent[1] = other;
	check(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds));
	check(!unix_socket_send(fds[0], &iov, 1, sent, what & 0x40 ? 0 : what & 0x20 ? 2 : 1));
	close(sent[0]);
	sys_close_fd(&segment);
	close(fds[0]);
	return fds[1];
}

#endif
