/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/netlink/netlink_ask.h"

#include <errno.h>

#include "base/sys.h"
#include "net/netlink/netlink.h"

int netlink_ask_open(int protocol)
{
	int fd = sys_fd_hide(
		sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));

	if (fd < 0 || netlink_is_of(fd))
		return fd;
	sys_close(fd);
	return -EXDEV;
}

ssize_t netlink_ask_once(int protocol, const void *question, size_t len, void *answer, size_t room)
{
	int fd = netlink_ask_open(protocol);
	ssize_t n = fd;

	if (fd >= 0)
		n = sys_write(fd, question, len);
	if (n >= 0)
		n = sys_read(fd, answer, room); /* it is there */
	sys_close_fd(&fd);
	return n;
}
