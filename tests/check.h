/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A check that works in every thread and process of a test, where cmocka's work only in the thread
 * that runs the case: it prints the place, and ends the process with all its threads.
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define TEST_CHECK(what)                                                                   \
	do {                                                                               \
		if (!(what)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
			abort();                                                           \
		}                                                                          \
	} while (0)

#endif
