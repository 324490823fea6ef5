/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/host_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/siphash.h"
#include "base/sys.h"

void host_dir_path(unsigned i, char path[HOST_DIR_PATH])
{
	unsigned uid = sys_geteuid();

	if (i)
		snprintf(path, HOST_DIR_PATH, "/dev/shm/libvma-%u", uid);
	else if (uid)
		snprintf(path, HOST_DIR_PATH, "/run/user/%u/libvma", uid);
	else
		snprintf(path, HOST_DIR_PATH, "/run/libvma");
}

int host_dir_open_at(int dir, const char *name, int flags)
{
	return (int)sys_call(SYS_openat, dir, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600, 0, 0);
}

int host_dir_check(int fd, mode_t type_and_mode)
{
	struct stat st;
	int rc = (int)sys_call(SYS_fstat, fd, &st, 0, 0, 0, 0);

	if (rc)
		return rc;
	return st.st_mode == type_and_mode && st.st_uid == sys_geteuid() ? 0 : -EPERM;
}

int host_dir_open(const char *path)
{
	int made = (int)sys_call(SYS_mkdir, path, 0700, 0, 0, 0, 0), fd, rc;

	if (made && made != -EEXIST)
		return made;
	fd = host_dir_open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd;
	rc = host_dir_check(fd, S_IFDIR | 0700);
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}

/*
 * umask(2) may have cleared mode bits when the file was created; its owner can set them again.
 */
static int check_lock_file(int fd)
{
	int rc = host_dir_check(fd, S_IFREG | 0600);

	if (rc != -EPERM || sys_call(SYS_fchmod, fd, 0600, 0, 0, 0, 0))
		return rc;
	return host_dir_check(fd, S_IFREG | 0600);
}

static int open_lock_file(const char *path, const char *name)
{
	int dir = host_dir_open(path), fd, rc;

	if (dir < 0)
		return dir;
	fd = host_dir_open_at(dir, name, O_RDWR | O_CREAT);
	sys_close(dir);
	if (fd < 0)
		return fd;
	rc = check_lock_file(fd);
	if (!rc)
		return sys_fd_hide(fd);
	sys_close(fd);
	return rc;
}

/* The error is temporary and says nothing about the directory. */
static bool is_temporary(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

int host_dir_lock_file(const char *name, char path[HOST_DIR_PATH])
{
	for (unsigned i = 0; i < HOST_DIRS; i++) {
		int fd;

		host_dir_path(i, path);
		fd = open_lock_file(path, name);
		if (fd >= 0 || is_temporary(fd))
			return fd;
	}
	return -ENOENT;
}

struct flock host_dir_lock_of(const void *name, size_t len, short type)
{
	static const uint8_t same[SIPHASH_KEY] = "of every process";

	return (struct flock){.l_type = type,
			      .l_whence = SEEK_SET,
			      .l_start = (off_t)(siphash(same, name, len) >> 2),
			      .l_len = 1};
}
