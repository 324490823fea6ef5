/* SPDX-License-Identifier: BSD-2-Clause */
/* The completions of MSG_ZEROCOPY in the error queue of a kernel's socket. */
#ifndef TESTS_UNIT_SOCK_MOVE_KERNEL_ERRORS_H
#define TESTS_UNIT_SOCK_MOVE_KERNEL_ERRORS_H

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <linux/errqueue.h> /* needs <time.h> */

#include "tests/vma_test.h"

#define KERNEL_ERRORS_WAIT 10000 /* msec */

/* The oldest entry, for which it waits. */
static inline struct sock_extended_err kernel_errors_read(int fd)
{
	char control[256] __attribute__((aligned(8)));
	struct msghdr msg = {.msg_control = control, .msg_controllen = sizeof(control)};
	struct pollfd p = {.fd = fd};
	struct sock_extended_err e;

	assert_int_equal(poll(&p, 1, KERNEL_ERRORS_WAIT), 1);
	assert_int_equal(recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT), 0);
	assert_true(msg.msg_controllen >= CMSG_LEN(sizeof(e)));
	memcpy(&e, CMSG_DATA((struct cmsghdr *)(void *)control), sizeof(e));
	assert_int_equal(e.ee_origin, SO_EE_ORIGIN_ZEROCOPY);
	return e;
}

static inline void kernel_errors_have(int fd, uint32_t lo, uint32_t hi)
{
	struct sock_extended_err e = kernel_errors_read(fd);

	assert_int_equal(e.ee_info, lo);
	assert_int_equal(e.ee_data, hi);
}

static inline void kernel_errors_are_read(int fd)
{
	char c;

	assert_int_equal(recv(fd, &c, 1, MSG_ERRQUEUE), -1);
	assert_int_equal(errno, EAGAIN);
}

#endif
