/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs of these scenarios have in common: they print what was wrong, and count it. */
#ifndef TESTS_SCENARIO_EXTRA_PROGRAM_H
#define TESTS_SCENARIO_EXTRA_PROGRAM_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned bad;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static void expect(bool is, const char *what)
{
	if (is)
		return;
	printf("wrong: %s\n", what);
	bad++;
}

#endif
