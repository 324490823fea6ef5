/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors that another process sends instead of the right ones. */
#ifndef TESTS_FUZZ_DESCRIPTORS_H
#define TESTS_FUZZ_DESCRIPTORS_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sys.h"
#include "fuzz/local_host.h"
#include "ring/local/segment.h"
#include "sock/local/local_sock.h"
#include "sock/local/local_udp.h"

enum descriptor {
	RIGHT,
	BLOCKING,
	CLOSED_PIPE,
	UNSEALED,
	OTHER_KIND,
	SMALL,
	READ_ONLY,
	SOCKET,
	DESCRIPTORS
};

static inline int copy_of(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* Who writes waits until somebody reads. */
static inline int full_eventfd(void)
{
	static const uint64_t most = UINT64_MAX - 1;
	int fd = eventfd(0, EFD_CLOEXEC);

	check(write(fd, &most, sizeof(most)) == sizeof(most));
	return fd;
}

static inline int closed_pipe(void)
{
	int fds[2];

	check(!pipe2(fds, O_CLOEXEC));
	close(fds[0]);
	return fds[1];
}

static inline int segment_of(uint32_t kind, size_t size)
{
	struct segment segment;
	int fd;

	check(!segment_create(&segment, kind, size));
	fd = copy_of(segment.fd);
	segment_close(&segment);
	return fd;
}

static inline int read_only(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static inline int unsealed(void)
{
	int fd = (int)sys_call(SYS_memfd_create, "unsealed", 0, 0, 0, 0, 0);

	check(fd >= 0 && !ftruncate(fd, (off_t)LOCAL_SEGMENT_SIZE));
	return fd;
}

/* right: the one that a message should have; memory: a segment of connections. */
static inline int make_descriptor(unsigned what, int right, int memory)
{
	switch (what % DESCRIPTORS) {
	case BLOCKING:
		return full_eventfd();
	case CLOSED_PIPE:
		return closed_pipe();
	case UNSEALED:
		return unsealed();
	case OTHER_KIND:
		return segment_of(LOCAL_RECORDS_SEGMENT, LOCAL_SEGMENT_SIZE);
	case SMALL:
		return segment_of(LOCAL_SEGMENT, SEGMENT_PAGE);
	case READ_ONLY:
		return read_only(memory);
	case SOCKET:
		return sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	default:
		return copy_of(right);
	}
}

#endif
