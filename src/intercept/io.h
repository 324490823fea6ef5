/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arguments of the read and write families, checked and gathered as the kernel
 * does it, before a socket sees them.
 */
#ifndef INTERCEPT_IO_H
#define INTERCEPT_IO_H

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define IO_MAX ((size_t)0x7ffff000) /* more is not transferred at a time, as in the kernel */

/* 0 or -errno; too_many: what more than IOV_MAX is. */
static inline int iov_check(const struct iovec *iov, size_t n, int too_many, size_t *total)
{
	size_t sum = 0;

	if (n > IOV_MAX)
		return -too_many;
	if (n && !iov)
		return -EFAULT;
	for (size_t i = 0; i < n; i++) {
		if ((ssize_t)iov[i].iov_len < 0)
			return -EINVAL;
		sum += iov[i].iov_len;
	}
	*total = sum;
	return 0;
}

static inline struct iovec iov_of(const void *buf, size_t len)
{
	/* A struct iovec is for both directions, and has no const. */
	return (struct iovec){(void *)(uintptr_t)buf, len < IO_MAX ? len : IO_MAX};
}

#endif
