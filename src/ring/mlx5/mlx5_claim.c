/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Claims: one process at a time steers a key.  Cards give a frame to every queue that has a rule
 * of the same match and priority, so without them two processes that share a port would both get
 * each frame.  A connection that goes from one process to another has a rule of each for a while,
 * of different priorities: the taker claims one that is left, makes its rule, and claims that it has
 * taken the connection.  When the giver sees that, it removes its own (mlx5_part_flow()).  While none
 * is left, the connection stays where it is (mlx5_may_part()).  Only who
 * has the connection claims that: two givers would remove their rules at once.
 *
 * A claim is a lock on one byte of a file of the user (base/host_dir.h), at an offset that is a
 * hash of the interface and the key, and a few bits; so it ends with its process.  Ports of other users are kept
 * apart by the kernel's twins, which are bound first.
 *
 * Role		holders of rings; most under the port's lock.
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

#define TAKEN 7 /* of the eight bytes of a key: this one, or that of a priority */

static struct flock lock_of(const struct mlx5_port *port, const struct flow_key *key, unsigned byte,
			    short type)
{
	struct {
		struct flow_key key;
		uint8_t mac[6], pad[2];
	} name = {.key = *key};
	struct flock lock;

	memcpy(name.mac, port->base.mac, sizeof(name.mac));
	lock = host_dir_lock_of(&name, sizeof(name), type);
	lock.l_start = (lock.l_start & ~7l) + byte;
	return lock;
}

static int claim(const struct mlx5_port *port, struct flock lock)
{
	if (port->claims < 0)
		return 0;
	return sys_fcntl(port->claims, F_OFD_SETLK, (long)&lock) ? -EEXIST : 0;
}

static bool is_of_another(const struct mlx5_port *port, struct flock lock)
{
	return port->claims >= 0 && !sys_fcntl(port->claims, F_OFD_GETLK, (long)&lock) &&
	       lock.l_type != F_UNLCK;
}

int mlx5_claim(const struct mlx5_port *port, const struct flow_key *key, unsigned nth)
{
	/* Every queue that listens to a group gets its frames. */
	return addr_is_multicast(&key->local) ? 0 : claim(port, lock_of(port, key, nth, F_WRLCK));
}

void mlx5_unclaim(const struct mlx5_port *port, const struct flow_key *key, unsigned nth)
{
	(void)claim(port, lock_of(port, key, nth, F_UNLCK));
}

bool mlx5_is_nth_claimed(const struct mlx5_port *port, const struct flow_key *key, unsigned nth)
{
	return is_of_another(port, lock_of(port, key, nth, F_WRLCK));
}

bool mlx5_is_claimed(const struct mlx5_port *port, const struct flow_key *key)
{
	struct flock lock = lock_of(port, key, 0, F_WRLCK);

	lock.l_len = mlx5_priorities(key);
	return is_of_another(port, lock);
}

void mlx5_claim_taken(const struct mlx5_port *port, const struct flow_key *key, bool taken)
{
	(void)claim(port, lock_of(port, key, TAKEN, taken ? F_WRLCK : F_UNLCK));
}

bool mlx5_is_taken(const struct mlx5_port *port, const struct flow_key *key)
{
	return is_of_another(port, lock_of(port, key, TAKEN, F_WRLCK));
}
