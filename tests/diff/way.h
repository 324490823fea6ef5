/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages with descriptors, SCM_RIGHTS of unix(7). */
#ifndef DIFF_WAY_H
#define DIFF_WAY_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define WAY_FDS_MAX 300

union way_control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(WAY_FDS_MAX * sizeof(int))];
};

/*
 * A message of one byte; the caller fills the parts of the control messages that the kernel
 * checks.
 */
struct msghdr way_message(struct iovec *iov, union way_control *control, size_t len);

void way_fill(union way_control *control, const int *fds, size_t n);

/* Passes descriptors; the result of sendmsg(). */
long way_pass(int way, const int *fds, size_t n);

/* Waits for a message; returns the number of its descriptors. */
size_t way_take(int way, int *fds, size_t n, int flags);

/* Returns the only descriptor, and says how many there were. */
int way_take_one(int way);

#endif
