/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "tests/mlx5/card.h"

#define END_MSEC 10000

/* Reads or writes: what was copied before a bad page does not count. */
static bool copied(ssize_t n, size_t len)
{
	return n >= 0 && (size_t)n == len;
}

/* The newest thread of the process; 0: there is none. */
static pid_t newest_thread(pid_t pid)
{
	const struct dirent *entry;
	pid_t newest = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		newest = tid > newest ? tid : newest;
	}
	if (dir)
		closedir(dir);
	return newest;
}

typedef ssize_t vm_fn(pid_t pid, const struct iovec *local, unsigned long n_local,
		      const struct iovec *remote, unsigned long n_remote, unsigned long flags);

/* Memory is found by a thread, and the first one of a process may have ended long before it. */
static ssize_t copy(const struct context *context, vm_fn *fn, const struct iovec *local,
		    const struct iovec *remote)
{
	static pid_t ended, other; /* the process that was looked at last, and its thread */
	pid_t by = context->pid == ended ? other : context->pid;
	ssize_t n = fn(by, local, 1, remote, 1, 0);

	if (n >= 0 || errno != ESRCH)
		return n;
	ended = context->pid;
	other = newest_thread(ended);
	errno = ESRCH;
	return other ? fn(other, local, 1, remote, 1, 0) : -1;
}

bool memory_read(const struct context *context, uint64_t from, void *to, size_t len)
{
	struct iovec local = {to, len}, remote = {(void *)(uintptr_t)from, len};

	return !len || copied(copy(context, process_vm_readv, &local, &remote), len);
}

bool memory_write(const struct context *context, uint64_t to, const void *from, size_t len)
{
	struct iovec local = {(void *)(uintptr_t)from, len}, remote = {(void *)(uintptr_t)to, len};

	return !len || copied(copy(context, process_vm_writev, &local, &remote), len);
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
