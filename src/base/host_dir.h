/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A directory that only its user can access (mode 0700).  Processes of one user keep shared files
 * there while the host is up, and find each other through it.
 *
 * The path is /run/libvma for root and /run/user/UID/libvma for other users; where that cannot
 * be created, /dev/shm/libvma-UID.  The user is the effective user at the time of the call.
 *
 * Role		any thread.
 * Errors	-errno.  -EPERM: the owner, type or mode allows another user access.
 */
#ifndef BASE_HOST_DIR_H
#define BASE_HOST_DIR_H

#include <fcntl.h>
#include <sys/types.h>

#define HOST_DIRS 2
#define HOST_DIR_PATH 48

/* The i-th candidate path, i < HOST_DIRS; 0 is preferred. */
void host_dir_path(unsigned i, char path[HOST_DIR_PATH]);

/*
 * Opens the directory at path, and creates it if necessary. Does not follow links. Returns a
 * descriptor or -errno.
 */
int host_dir_open(const char *path);

/* openat(2) of a file in the directory: mode 0600, close-on-exec, does not follow links. */
int host_dir_open_at(int dir, const char *name, int flags);

/*
 * 0 if the file has this type and mode and belongs to the user, else -EPERM or another -errno.
 */
int host_dir_check(int fd, mode_t type_and_mode);

/*
 * Opens an empty lock file for the processes of the user, and creates it if necessary. Returns a
 * hidden descriptor (sys.h), or -errno. The file is in the first directory that can be created,
 * so all processes that see the same directories get the same file. path: set to that directory.
 * -ENOENT: no directory is usable; other errors may be temporary.
 */
int host_dir_lock_file(const char *name, char path[HOST_DIR_PATH]);

/*
 * The record lock of what these bytes name, for fcntl(2): one byte of a lock file, at a hash of them, the
 * same in every process.  type: F_WRLCK or F_UNLCK.
 */
struct flock host_dir_lock_of(const void *name, size_t len, short type);

#endif
