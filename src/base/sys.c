/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sys.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define HIDDEN_FD 512 /* programs number theirs from 0, and loop up to some hundreds */

static int open_files_limit(void)
{
	struct rlimit limit;

	if (sys_call(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit, 0, 0) < 0)
		return 0;
	return limit.rlim_cur > INT32_MAX ? INT32_MAX : (int)limit.rlim_cur;
}

int sys_fd_hide(int fd)
{
	int hidden;

	if (fd < 0)
		return fd;
	if (fd >= HIDDEN_FD) {
		sys_fcntl(fd, F_SETFD, FD_CLOEXEC);
		return fd;
	}
	hidden = sys_fcntl(fd, F_DUPFD_CLOEXEC, HIDDEN_FD);
	if (hidden < 0) {
		/* A low limit: near the end of what there is. */
		int limit = open_files_limit();

		for (int below = 1; hidden < 0 && limit - below > fd; below *= 2)
			hidden = sys_fcntl(fd, F_DUPFD_CLOEXEC, limit - below);
	}
	if (hidden < 0) {
		sys_fcntl(fd, F_SETFD, FD_CLOEXEC);
		return fd;
	}
	sys_close(fd);
	return hidden;
}
