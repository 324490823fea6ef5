/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A library of the program. Its constructor runs before the library under test has started, its
 * destructor after the last handler of the program.
 */
#include "tests/diff/early/early.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OUT_OF_THE_WAY 300

int early_fd = -1;
int late_fd = -1;

__attribute__((constructor)) static void load(int argc, char **argv)
{
	int fd;

	if (argc < 2 || strcmp(argv[1], "worker") != 0)
		return;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	early_fd = fcntl(fd, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
	close(fd);
}

__attribute__((destructor)) static void unload(void)
{
	if (late_fd >= 0 && send(late_fd, "late", 4, 0) == 4)
		shutdown(late_fd, SHUT_WR);
}
