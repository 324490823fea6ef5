/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the programs whose calls are counted. */
#ifndef TESTS_BUDGET_PROGRAM_H
#define TESTS_BUDGET_PROGRAM_H

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((noreturn)) static inline void die(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

/* The function that this program calls: the library's, when it is preloaded. */
static inline void *function(const char *name)
{
	void *fn = dlsym(RTLD_DEFAULT, name);

	if (!fn)
		die(name);
	return fn;
}

static inline void nap_msec(int msec)
{
	struct timespec ts = {.tv_nsec = msec * 1000000L};

	nanosleep(&ts, NULL);
}

/* The bytes that v0, the only link, has received. */
static inline unsigned long received_bytes(void)
{
	FILE *f = fopen("/proc/net/dev", "re");
	unsigned long bytes = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		(void)sscanf(line, " v0: %lu", &bytes);
	if (f)
		fclose(f);
	return bytes;
}

/*
 * Waits until v0 has received so many more than before, at most ten seconds: when a machine is
 * busy, answers come late.  They are in the ring a moment later.
 */
static inline void await_received(unsigned long before, unsigned long bytes)
{
	for (int i = 0; i < 10000 && received_bytes() < before + bytes; i++)
		nap_msec(1);
	nap_msec(1);
}

#endif
