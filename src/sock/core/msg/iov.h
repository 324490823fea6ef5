/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's vectors: their length, and how to continue in the middle of one. */
#ifndef SOCK_CORE_MSG_IOV_H
#define SOCK_CORE_MSG_IOV_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>

#include "base/mem.h"

#define IOV_STACK 16

static inline size_t iov_total(const struct iovec *iov, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

/* A copy that iov_advance() may change: in stack[IOV_STACK] if it fits; NULL: no memory. */
static inline struct iovec *iov_copy(const struct iovec *iov, size_t count, struct iovec *stack)
{
	struct iovec *copy = stack;

	if (count > IOV_STACK)
		copy = mem_alloc(count * sizeof(*copy));
	if (copy)
		memcpy(copy, iov, count * sizeof(*copy));
	return copy;
}

static inline void iov_copy_free(struct iovec *copy, const struct iovec *stack)
{
	if (copy != stack)
		mem_free(copy);
}

/* Skips n bytes. */
static inline void iov_advance(struct iovec **iov, size_t *count, size_t n)
{
	while (*count && n >= (*iov)->iov_len) {
		n -= (*iov)->iov_len;
		(*iov)++;
		(*count)--;
	}
	if (*count && n) {
		(*iov)->iov_base = (char *)(*iov)->iov_base + n;
		(*iov)->iov_len -= n;
	}
}

/*
 * For a call that goes on after n bytes: skips them in a copy of the program's vectors, which the
 * first call makes in *copy (see iov_copy()).  False: no memory.
 */
static inline bool iov_continue(struct iovec **iov, size_t *count, size_t n, struct iovec **copy,
				struct iovec *stack)
{
	if (!*copy)
		*copy = *iov = iov_copy(*iov, *count, stack);
	if (!*copy)
		return false;
	iov_advance(iov, count, n);
	return true;
}

#endif
