/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the processes of a group find each other: a Unix socket in the directory that only
 * their user can look into (base/host_dir.h), named after interface, user and network
 * namespace.  No other user can take the name or connect to it.
 *
 * The file outlives the process that listened there.  A process that wants the name, and
 * finds that nobody listens, replaces the file.  A lock lets one process at a time do this: on
 * one byte of another file in the directory, at a hash of the name, so that interfaces and
 * namespaces do not wait for each other.  It also looks at a few files of other groups, and
 * removes those where nobody listens, so that their number does not grow.
 *
 * Without such a directory (a container with neither /run nor /dev/shm), the name is abstract.
 * Any user can take it; then processes do not share the interface.  Nor do processes that see
 * different directories.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/host_dir.h"
#include "base/random.h"
#include "base/sys.h"
#include "base/unix_socket.h"
#include "ring/xdp/xdp_internal.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* Linux 5.14; processes share an interface from 6.4 on */
#endif

#define LOCK_FILE "names"
#define PREFIX "xdp-"
#define BACKLOG 128
#define LOOKS 2 /* at files of other groups: each group adds one, so fewer than half stay unused */

struct name {
	struct sockaddr_un addr;
	socklen_t len;
	int lock_fd; /* negative: the name is abstract */
	char dir[HOST_DIR_PATH];
};

/* The cookie of the socket's network namespace; 0: not known. */
static uint64_t namespace_of(int sock)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return sys_getsockopt(sock, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) ? 0 : cookie;
}

/* Each network namespace has abstract names of its own. */
static void name_abstract(const struct xdp_port *port, struct name *name)
{
	name->len = unix_socket_name(&name->addr, "libvma-" PREFIX "%d-%u", port->base.ifindex,
				     port->uid);
}

static void name_path(struct name *name, const char *file)
{
	snprintf(name->addr.sun_path, sizeof(name->addr.sun_path), "%s/%.56s", name->dir, file);
	name->len = sizeof(name->addr);
}

/*
 * sock: any socket of the network namespace.  0: the caller closes name->lock_fd; -errno: try
 * later.
 */
static int find_name(const struct xdp_port *port, int sock, struct name *name)
{
	uint64_t netns = namespace_of(sock);
	char file[56];

	*name = (struct name){.addr.sun_family = AF_UNIX, .lock_fd = -ENOENT};
	if (netns)
		name->lock_fd = host_dir_lock_file(LOCK_FILE, name->dir);
	if (name->lock_fd == -ENOENT) {
		name_abstract(port, name);
		return 0;
	}
	if (name->lock_fd < 0)
		return name->lock_fd;
	snprintf(file, sizeof(file), PREFIX "%d-%u-%llx", port->base.ifindex, port->uid,
		 (unsigned long long)netns);
	name_path(name, file);
	return 0;
}

static int connect_to(int fd, const struct name *name)
{
	return sys_connect(fd, (const struct sockaddr *)&name->addr, name->len);
}

int xdp_group_name_call(const struct xdp_port *port)
{
	struct name name;
	int fd = unix_socket_new(), rc;

	if (fd < 0)
		return fd;
	rc = find_name(port, fd, &name);
	if (!rc)
		rc = connect_to(fd, &name);
	sys_close_fd(&name.lock_fd);
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}

/* ---- taking it ---------------------------------------------------------------------------- */

/* Released when name->lock_fd is closed.  False: another process has it. */
static bool lock(const struct name *name)
{
	const char *path = name->addr.sun_path;
	struct flock lock = host_dir_lock_of(path, strlen(path), F_WRLCK);

	return !sys_fcntl(name->lock_fd, F_OFD_SETLK, (long)&lock);
}

/* Removes the file of a name if no process listens there.  The lock is held: none will soon. */
static void remove_if_unused(const struct name *name)
{
	int fd = unix_socket_new();

	if (fd < 0)
		return;
	if (connect_to(fd, name) == -ECONNREFUSED)
		sys_call(SYS_unlink, name->addr.sun_path, 0, 0, 0, 0, 0);
	sys_close(fd);
}

/* Chooses among the files of a part of the directory.  *seen: how many there were before. */
static void choose(struct name chosen[LOOKS], const char *buf, long n, const struct name *mine,
		   unsigned *seen)
{
	for (long at = 0; at < n;) {
		const struct dirent64 *entry = (const void *)(buf + at);
		struct name name = *mine;
		uint32_t any = 0;

		at += entry->d_reclen;
		name_path(&name, entry->d_name);
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 ||
		    !strcmp(name.addr.sun_path, mine->addr.sun_path))
			continue;
		/* Without random bytes it is the last of them. */
		if (*seen >= LOOKS && random_bytes(&any, sizeof(any)))
			any %= *seen + 1;
		if (*seen < LOOKS || any < LOOKS)
			chosen[*seen < LOOKS ? *seen : any] = name;
		++*seen;
	}
}

/*
 * The same for some files of other interfaces and namespaces, which may be gone for good.  Not for
 * all: where another process listens, it has to accept a connection.
 */
static void remove_some_unused(const struct name *mine)
{
	char buf[4096] __attribute__((aligned(8)));
	int dir = host_dir_open(mine->dir);
	struct name chosen[LOOKS];
	unsigned seen = 0;
	long n;

	if (dir < 0)
		return;
	while ((n = sys_call(SYS_getdents64, dir, buf, sizeof(buf), 0, 0, 0)) > 0)
		choose(chosen, buf, n, mine, &seen);
	sys_close(dir);
	for (unsigned i = 0; i < LOOKS && i < seen; i++)
		if (lock(&chosen[i]))
			remove_if_unused(&chosen[i]);
}

static int bind_and_listen(int fd, const struct name *name)
{
	int rc = sys_bind(fd, (const struct sockaddr *)&name->addr, name->len);

	if (rc)
		return rc;
	if (name->lock_fd >= 0) /* independent of umask(2) */
		sys_call(SYS_chmod, name->addr.sun_path, 0600, 0, 0, 0, 0);
	return sys_listen(fd, BACKLOG);
}

/* The lock is held; or the name is abstract, which the kernel frees with its socket. */
static int listen_at(int fd, const struct name *name)
{
	int rc = bind_and_listen(fd, name);

	if (name->lock_fd < 0)
		return rc;
	if (rc == -EADDRINUSE) {
		remove_if_unused(name);
		rc = bind_and_listen(fd, name);
	}
	if (!rc)
		remove_some_unused(name);
	return rc;
}

int xdp_group_name_take(const struct xdp_port *port)
{
	struct name name;
	int fd = unix_socket_new(), rc;

	if (fd < 0)
		return fd;
	rc = find_name(port, fd, &name);
	if (!rc && name.lock_fd >= 0 && !lock(&name))
		rc = -EAGAIN;
	if (!rc)
		rc = listen_at(fd, &name);
	sys_close_fd(&name.lock_fd); /* releases the lock */
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}
