/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/port/port_keeper.h"

#include "base/sys.h"

unsigned port_keepers;

int port_keeper_open(int twin)
{
	int fd = sys_fd_copy(twin);

	if (fd >= 0)
		__atomic_fetch_add(&port_keepers, 1, __ATOMIC_RELAXED);
	return fd;
}

void port_keeper_close(int fd)
{
	if (fd < 0)
		return;
	sys_close(fd);
	__atomic_fetch_sub(&port_keepers, 1, __ATOMIC_RELAXED);
}
