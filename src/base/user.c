/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/user.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "base/sys.h"

/*
 * The memory just above this function's frame holds the frames of its callers and the start of
 * the stack. It is mapped, so it needs no system call.
 */
#define NEAR_FRAME 1024

static bool on_stack(const void *at, size_t n)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

	return (uintptr_t)at >= frame && (uintptr_t)at - frame < NEAR_FRAME && n < NEAR_FRAME;
}

static int copy_checked(long nr, void *to, const void *from, void *local, void *remote, size_t n)
{
	struct iovec ours = {local, n}, theirs = {remote, n};
	long rc;

	if (!n)
		return 0;
	if (on_stack(remote, n)) {
		memcpy(to, from, n);
		return 0;
	}
	rc = sys_call(nr, sys_getpid(), &ours, 1, &theirs, 1, 0);
	if (rc == -EFAULT || (rc >= 0 && rc < (long)n))
		return -EFAULT;
	if (rc < 0)
		memcpy(to, from, n);
	return 0;
}

int user_read(void *to, const void *from, size_t n)
{
	return copy_checked(SYS_process_vm_readv, to, from, to, (void *)(uintptr_t)from, n);
}

int user_write(void *to, const void *from, size_t n)
{
	return copy_checked(SYS_process_vm_writev, to, from, (void *)(uintptr_t)from, to, n);
}

int user_write_address(struct sockaddr *addr, socklen_t *len, const struct sockaddr *from,
		       socklen_t full)
{
	socklen_t room;

	if (user_read(&room, len, sizeof(room)))
		return -EFAULT;
	if ((int)room < 0)
		return -EINVAL;
	if (room > full)
		room = full;
	if (user_write(addr, from, room) || user_write(len, &full, sizeof(full)))
		return -EFAULT;
	return 0;
}
