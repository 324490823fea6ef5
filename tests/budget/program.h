/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the programs whose calls are counted. */
#ifndef TESTS_BUDGET_PROGRAM_H
#define TESTS_BUDGET_PROGRAM_H

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

#endif
