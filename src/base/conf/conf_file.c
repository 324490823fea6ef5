/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/conf/conf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/sys.h"

#define SIZE_AT_FIRST 4096

/* NULL: the file may be used. */
static const char *refusal(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return "it has no status";
	if (!S_ISREG(st.st_mode))
		return "it is not a regular file";
	if (st.st_uid != 0 && st.st_uid != sys_geteuid())
		return "it belongs neither to root nor to the user of the process";
	if (st.st_mode & S_IWOTH)
		return "every user can write it";
	if (st.st_size > CONF_FILE_MAX)
		return "it has more than 1 MiB";
	return NULL;
}

/* The file may grow while it is read. */
static int read_all(int fd, char **text, size_t *len)
{
	size_t room = 0;

	*text = NULL;
	*len = 0;
	for (;;) {
		ssize_t n;

		if (*len == room) {
			char *more;

			room = room ? 2 * room : SIZE_AT_FIRST;
			more = mem_realloc(*text, room);
			if (!more)
				return -ENOMEM;
			*text = more;
		}
		n = sys_read(fd, *text + *len, room - *len);
		if (n < 0)
			return (int)n;
		if (n == 0)
			return 0;
		*len += (size_t)n;
		if (*len > CONF_FILE_MAX)
			return -EFBIG;
	}
}

int conf_file_read(const char *path, char **text, size_t *len, const char **why)
{
	int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0), rc = -EPERM;

	*text = NULL;
	*len = 0;
	if (fd < 0) {
		*why = strerror(-fd);
		return fd;
	}
	*why = refusal(fd);
	if (!*why) {
		rc = read_all(fd, text, len);
		if (rc)
			*why = strerror(-rc);
	}
	sys_close(fd);
	if (rc) {
		mem_free(*text);
		*text = NULL;
	}
	return rc;
}
