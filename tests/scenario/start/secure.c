/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that is linked with the library, because LD_PRELOAD does not work for a
 * set-user-id program.
 *
 *	secure hand PROGRAM	executes PROGRAM with a socket and a channel that
 *				VMA_INHERITED names, as for a descendant
 *	secure look FD		prints the state of the socket and of the variable, and
 *				whether the process would have a page of statistics
 *	secure tell conf	prints the file that the rules are read from
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/param.h"
#include "base/stats/stats.h"
#include "base/sys.h"
#include "intercept/fdtable.h"
#include "intercept/process/inherited.h"

static unsigned long inode_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		exit(2);
	return st.st_ino;
}

/* Creates descriptors by system calls, so that this process's own library does not see them. */
static void hand(const char *program)
{
	char variable[128], number[16];
	struct sockaddr_in addr = {.sin_family = AF_INET};
	int pair[2], sock = sys_socket(AF_INET, SOCK_DGRAM, 0);

	if (sock < 0 || sys_bind(sock, (struct sockaddr *)&addr, sizeof(addr)) ||
	    sys_call(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET, 0, pair, 0, 0))
		exit(2);
	snprintf(variable, sizeof(variable), "%d,%lu,1;%d,%lu,1", pair[0], inode_of(pair[0]), sock,
		 inode_of(sock));
	snprintf(number, sizeof(number), "%d", sock);
	setenv(INHERITED_NAME, variable, 1);
	execl(program, program, "look", number, NULL);
	perror(program);
	exit(2);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	if (!strcmp(argv[1], "hand"))
		hand(argv[2]);
	if (!strcmp(argv[1], "tell"))
		return puts(params.config_file) < 0;
	printf("%s %s, %s, %s\n", getauxval(AT_SECURE) ? "secure:" : "plain:",
	       fd_get(atoi(argv[2])).sk ? "inherited" : "not inherited",
	       getenv(INHERITED_NAME) ? "told" : "not told",
	       stats_open() ? "counted" : "not counted");
	stats_close();
	return 0;
}
