/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/port_claim.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/sys.h"
#include "sock/control.h"

static socklen_t name_of(struct sockaddr_un *addr, unsigned long inode)
{
	int len;

	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	len = snprintf(addr->sun_path + 1, sizeof(addr->sun_path) - 1, "libvma-port-%u-%lu",
		       sys_geteuid(), inode);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int open_socket(void)
{
	return sys_fd_hide(sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int port_claim(unsigned long inode)
{
	struct sockaddr_un addr;
	socklen_t len = name_of(&addr, inode);
	int fd = open_socket(), rc;

	control_assert_held();
	if (fd < 0)
		return fd;
	rc = sys_bind(fd, (struct sockaddr *)&addr, len);
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}

bool port_is_claimed(unsigned long inode)
{
	struct sockaddr_un addr;
	socklen_t len = name_of(&addr, inode);
	int fd = open_socket(), rc;

	control_assert_held();
	if (fd < 0)
		return false;
	rc = sys_connect(fd, (struct sockaddr *)&addr, len);
	sys_close(fd);
	return rc == 0;
}
