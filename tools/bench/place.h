/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a thread of a benchmark runs.
 *
 * Errors	a line on stderr, and the end of the program.
 */
#ifndef TOOLS_BENCH_PLACE_H
#define TOOLS_BENCH_PLACE_H

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Pins the calling thread. */
static inline void place_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("processor");
		exit(1);
	}
}

/* A name of ip-netns(8) or a path; moves the calling thread. */
static inline void place_enter_netns(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s%s", strchr(name, '/') ? "" : "/run/netns/", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET)) {
		perror(path);
		exit(1);
	}
	close(fd);
}

#endif
