/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Common head of every unit test: cmocka, and a main() that hands per-case
 * results to Bazel (through $XML_OUTPUT_FILE) when Bazel runs the test.  There a case that is
 * skipped fails the test: what a configuration cannot run is not in its list of cases.
 *
 * A forked child that fails a check ends.  Otherwise cmocka would return to the list of cases, in the
 * child, which then would run all that follow, and fork children of its own.
 */
#ifndef VMA_TEST_H
#define VMA_TEST_H
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* Read by cmocka when a check fails. */
static char vma_test_abort[] = "CMOCKA_TEST_ABORT=0";

__attribute__((unused)) static void vma_test_in_child(void)
{
	vma_test_abort[sizeof(vma_test_abort) - 2] = '1';
}

#define VMA_TEST_MAIN(group, tests, setup, teardown)                                         \
	int main(void)                                                                       \
	{                                                                                    \
		const char *xml = getenv("XML_OUTPUT_FILE");                                 \
		char line[512];                                                              \
		FILE *f;                                                                     \
		int rc;                                                                      \
                                                                                             \
		if (xml != NULL && access(xml, F_OK) != 0) {                                 \
			setenv("CMOCKA_XML_FILE", xml, 1);                                   \
			cmocka_set_message_output(CM_OUTPUT_XML);                            \
		}                                                                            \
		if (putenv(vma_test_abort) || pthread_atfork(NULL, NULL, vma_test_in_child)) \
			return 2;                                                            \
		rc = cmocka_run_group_tests_name(group, tests, setup, teardown);             \
		if (xml != NULL && (f = fopen(xml, "r")) != NULL) {                          \
			while (fgets(line, sizeof(line), f) != NULL) {                       \
				fputs(line, stdout);                                         \
				if (strstr(line, "<skipped") != NULL)                        \
					rc = 1;                                              \
			}                                                                    \
			fclose(f);                                                           \
		}                                                                            \
		return rc != 0;                                                              \
	}
#endif
