/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/port/port_claim.h"

#include <fcntl.h>

#include "base/host_dir.h"
#include "base/sys.h"
#include "sock/core/control.h"

#define FILE_NAME "ports"

static int open_file(void)
{
	char dir[HOST_DIR_PATH];

	return host_dir_lock_file(FILE_NAME, dir);
}

/* For F_OFD_*: the lock belongs to the open file, so neither fork() nor another close() ends it. */
static struct flock lock_of(unsigned long inode, short type)
{
	return (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)inode, .l_len = 1};
}

int port_claim(unsigned long inode)
{
	struct flock lock = lock_of(inode, F_RDLCK);
	int fd = open_file(), rc;

	control_assert_held();
	if (fd < 0)
		return fd;
	rc = sys_fcntl(fd, F_OFD_SETLK, (long)&lock);
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}

bool port_is_claimed(unsigned long inode)
{
	struct flock lock = lock_of(inode, F_WRLCK);
	int fd = open_file(), rc;

	control_assert_held();
	if (fd < 0)
		return false;
	rc = sys_fcntl(fd, F_OFD_GETLK, (long)&lock);
	sys_close(fd);
	return !rc && lock.l_type != F_UNLCK;
}
