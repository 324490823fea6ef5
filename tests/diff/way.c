/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/diff/way.h"

#include <poll.h>
#include <string.h>

#include "tests/diff/diff.h"

struct msghdr way_message(struct iovec *iov, union way_control *control, size_t len)
{
	static char byte = 'x';

	*iov = (struct iovec){&byte, 1};
	return (struct msghdr){
		.msg_iov = iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = len};
}

void way_fill(union way_control *control, const int *fds, size_t n)
{
	memset(control, 0, sizeof(*control));
	control->head = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(n * sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
	};
	memcpy(CMSG_DATA(&control->head), fds, n * sizeof(int));
}

long way_pass(int way, const int *fds, size_t n)
{
	union way_control control;
	struct iovec iov;
	struct msghdr msg = way_message(&iov, &control, CMSG_SPACE(n * sizeof(int)));

	way_fill(&control, fds, n);
	return sendmsg(way, &msg, 0);
}

size_t way_take(int way, int *fds, size_t n, int flags)
{
	union way_control control;
	struct iovec iov;
	struct msghdr msg = way_message(&iov, &control, CMSG_SPACE(n * sizeof(int)));
	struct cmsghdr *c;

	await(way, POLLIN);
	SAY(recvmsg(way, &msg, flags));
	c = CMSG_FIRSTHDR(&msg);
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return 0;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	return n;
}

int way_take_one(int way)
{
	int fd = -1;

	say("descriptors: %zu", way_take(way, &fd, 1, 0));
	return fd;
}
