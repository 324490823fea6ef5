/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <sys/uio.h>

#include "tests/mlx5/card.h"

#define END_MSEC 10000

/* Reads or writes: what was copied before a bad page does not count. */
static bool copied(ssize_t n, size_t len)
{
	return n >= 0 && (size_t)n == len;
}

bool memory_read(const struct context *context, uint64_t from, void *to, size_t len)
{
	struct iovec local = {to, len}, remote = {(void *)(uintptr_t)from, len};

	return !len || copied(process_vm_readv(context->pid, &local, 1, &remote, 1, 0), len);
}

bool memory_write(const struct context *context, uint64_t to, const void *from, size_t len)
{
	struct iovec local = {(void *)(uintptr_t)from, len}, remote = {(void *)(uintptr_t)to, len};

	return !len || copied(process_vm_writev(context->pid, &local, 1, &remote, 1, 0), len);
}

bool memory_has_gone(const struct context *context)
{
	/* A program that is executed has new memory some time before its descriptors are closed. */
	struct pollfd pfd = {.fd = context->conn, .events = POLLRDHUP};

	return errno == ESRCH || poll(&pfd, 1, END_MSEC) == 1;
}

const struct region *region_of(const struct context *context, const struct pd *pd, uint32_t key,
			       uint64_t addr, size_t len)
{
	list_for_each(link, &context->regions) {
		const struct region *r = container_of(link, struct region, object.link);

		if (r->key == key && r->pd == pd)
			return addr >= r->start && len <= r->length &&
					       addr - r->start <= r->length - len
				       ? r
				       : NULL;
	}
	return NULL;
}
