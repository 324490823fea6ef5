/* SPDX-License-Identifier: BSD-2-Clause */
/* The Unix sockets of links: names and messages. */
#include <errno.h>

#include "base/random.h"
#include "base/sys.h"
#include "base/unix_socket.h"
#include "sock/local/local_link_internal.h"

#define BACKLOG 128

static socklen_t address_of(uint64_t process, struct sockaddr_un *un)
{
	return unix_socket_name(un, "libvma-local-%016llx", (unsigned long long)process);
}

bool local_is_dead(uint64_t process)
{
	struct sockaddr_un un;
	socklen_t len = address_of(process, &un);
	int fd = unix_socket_new(), rc;

	if (fd < 0)
		return false;
	rc = sys_bind(fd, (struct sockaddr *)&un, len); /* nobody has the name */
	sys_close(fd);
	return !rc;
}

int local_wire_send(int sock, const struct local_message *message, const int *fds, unsigned n)
{
	struct iovec iov = {(void *)(uintptr_t)message, sizeof(*message)};
	int rc = unix_socket_send(sock, &iov, 1, fds, n);

	return rc == -ECONNRESET ? -EPIPE : rc; /* it has ended, and had not read all */
}

int local_wire_receive(int sock, struct local_message *message, int fds[LOCAL_FDS], unsigned *n)
{
	struct iovec iov = {message, sizeof(*message)};
	ssize_t len = unix_socket_receive(sock, &iov, 1, 0, fds, LOCAL_FDS, n);

	if (len == -EAGAIN || len == -EINTR)
		return -EAGAIN;
	return len == sizeof(*message);
}

int local_wire_connect(uint64_t process)
{
	struct sockaddr_un un;
	socklen_t len = address_of(process, &un);

	return unix_socket_connect(&un, len);
}

int local_wire_listen(uint64_t *name)
{
	struct sockaddr_un un;
	socklen_t len;
	int fd, rc;

	do {
		if (!random_bytes(name, sizeof(*name)))
			return -ENODATA;
	} while (!*name);
	len = address_of(*name, &un);
	fd = unix_socket_new();
	if (fd < 0)
		return fd;
	rc = sys_bind(fd, (struct sockaddr *)&un, len);
	if (!rc)
		rc = sys_listen(fd, BACKLOG);
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}
