/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A directory that nobody but its user can look into (mode 0700): what processes of one user
 * keep for each other while the host is up, and where they find each other.
 *
 * It is /run/libvma of root, /run/user/UID/libvma of other users; where that cannot be,
 * /dev/shm/libvma-UID.  The user is the effective one of the moment.
 *
 * Role		any thread.
 * Errors	-errno.  -EPERM: another user has, or could have, a hand in it.
 */
#ifndef BASE_HOST_DIR_H
#define BASE_HOST_DIR_H

#include <sys/types.h>

#define HOST_DIRS 2
#define HOST_DIR_PATH 48

/* Where it may be; 0 is the best place. */
void host_dir_path(unsigned i, char path[HOST_DIR_PATH]);

/* A descriptor of the directory at path, which is made at need.  Links are not followed. */
int host_dir_open(const char *path);

/* openat(2) of a file in it: mode 0600, close-on-exec, links are not followed. */
int host_dir_open_at(int dir, const char *name, int flags);

/* 0: it is of this type and mode, and the user's own. */
int host_dir_check(int fd, mode_t type_and_mode);

/*
 * A file without contents, made at need, for locks between processes of the user; hidden.  It
 * is in the first directory where it can be made: the same file for all processes that see
 * the same directories.  path: of the directory.  -ENOENT: it can be nowhere; other errors
 * may pass.
 */
int host_dir_lock_file(const char *name, char path[HOST_DIR_PATH]);

#endif
