/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Claims: one process at a time steers a key.  Cards give a frame to every queue that has a rule
 * of the same match, so without them two processes that share a port would both get each frame.
 *
 * A claim is a lock on one byte of a file of the user (base/host_dir.h), at an offset that is a
 * hash of the interface and the key; so it ends with its process.  Ports of other users are kept
 * apart by the kernel's twins, which are bound first.
 *
 * Role		holders of rings.
 * Progress	system calls that do not wait.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/host_dir.h"
#include "base/sys.h"
#include "ring/mlx5/mlx5_internal.h"

int mlx5_claims_open(void)
{
	char path[HOST_DIR_PATH];
	int fd = host_dir_lock_file("mlx5", path);

	return fd < 0 ? -1 : fd;
}

static struct flock lock_of(const struct mlx5_port *port, const struct flow_key *key, short type)
{
	struct {
		struct flow_key key;
		uint8_t mac[6], pad[2];
	} name = {.key = *key};

	memcpy(name.mac, port->base.mac, sizeof(name.mac));
	return host_dir_lock_of(&name, sizeof(name), type);
}

int mlx5_claim(const struct mlx5_port *port, const struct flow_key *key)
{
	struct flock lock = lock_of(port, key, F_WRLCK);

	/* Every queue that listens to a group gets its frames. */
	if (port->claims < 0 || addr_is_multicast(&key->local))
		return 0;
	return sys_fcntl(port->claims, F_OFD_SETLK, (long)&lock) ? -EEXIST : 0;
}

void mlx5_unclaim(const struct mlx5_port *port, const struct flow_key *key)
{
	struct flock lock = lock_of(port, key, F_UNLCK);

	if (port->claims >= 0)
		sys_fcntl(port->claims, F_OFD_SETLK, (long)&lock);
}

bool mlx5_is_claimed(const struct mlx5_port *port, const struct flow_key *key)
{
	struct flock lock = lock_of(port, key, F_WRLCK);

	return port->claims >= 0 && !sys_fcntl(port->claims, F_OFD_GETLK, (long)&lock) &&
	       lock.l_type != F_UNLCK;
}
